// SPDX-License-Identifier: Apache-2.0
//
// Keeps Go's signal handling out of the host process's. Both constructors run when
// the library is loaded, on either side of the one that starts Go: it begins
// Go's first thread, whose mask all of Go's threads get.

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static sigset_t mask;
static struct sigaction urgent;

// A signal to the process may go to any thread that does not block it. On one of
// ours it would end a process that blocks it elsewhere to wait for it, and a
// handler would find a goroutine's small stack. Go unblocks what faults raise.
__attribute__((constructor(101))) static void before_go(void)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	sigaction(SIGURG, NULL, &urgent);
}

// Go takes SIGURG to interrupt long loops, of which it has none here, and would
// keep it from the host's handler. Its handlers for faults pass on what isn't its own.
__attribute__((constructor)) static void after_go(void)
{
	sigaction(SIGURG, &urgent, NULL);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
