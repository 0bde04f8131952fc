// SPDX-License-Identifier: Apache-2.0
//
// Notices that this process is a forked child, for example a data loader.

#include <pthread.h>
#include <unistd.h>

#include "glue.h"

int net_is_child;

// Sets a flag and calls nothing: few functions are safe here, as in a signal handler.
static void in_child(void) { __atomic_store_n(&net_is_child, 1, __ATOMIC_RELEASE); }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

int net_refused(void)
{
	static const char why[] =
		"ddlemu: NCCL was called in a process that was forked after libgoemu.so was loaded, which can't work: start such a process with spawn or exec\n";
	static int said;
	if (!net_forked())
		return 0;
	// Not to NCCL's log: its lock may have been locked by another thread at the fork.
	if (!__atomic_exchange_n(&said, 1, __ATOMIC_ACQ_REL))
		(void)!write(STDERR_FILENO, why, sizeof why - 1);
	return 1;
}
