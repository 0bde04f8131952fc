// SPDX-License-Identifier: Apache-2.0
//
// Keeps Go's signal handling away from the host process. These two constructors run when the library is loaded, before
// and after the one that starts Go's first thread. All of Go's threads inherit that thread's signal mask.

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

static sigset_t mask;
static struct sigaction urgent, pipe_action;

// The kernel gives a signal for the process to any thread that does not block it. On a thread of Go it would end a
// process whose other threads block the signal and wait for it, and a handler would run on a goroutine's small stack.
// So Go's threads block all signals. Go itself unblocks the signals that faults raise.
__attribute__((constructor(101))) static void before_go(void)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	sigaction(SIGURG, NULL, &urgent);
	sigaction(SIGPIPE, NULL, &pipe_action);
}

// Go installs a handler for SIGURG, to interrupt long loops. The plugin has none, so the host's handler is restored.
// Go's handlers for faults stay: they pass on the faults that are not Go's. Go's handler for SIGPIPE stays too, and
// passes the signal on. But if the host ignores SIGPIPE, that is restored: a program that the host starts inherits an
// ignored signal, but with Go's handler it would start with the default action.
__attribute__((constructor)) static void after_go(void)
{
	sigaction(SIGURG, &urgent, NULL);
	if (pipe_action.sa_handler == SIG_IGN)
		sigaction(SIGPIPE, &pipe_action, NULL);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
