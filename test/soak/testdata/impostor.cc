// SPDX-License-Identifier: Apache-2.0
// A process with the pid of a process that has died.
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "soak.h"

// impostor PID: runs a process of that pid until standard input ends.
int impostor(const Args &args)
{
	if (args.size() != 1)
		return 2;
	pid_t want = atoi(args[0].c_str());
	clone_args how = {};
	how.exit_signal = SIGCHLD;
	how.set_tid = reinterpret_cast<uint64_t>(&want);
	how.set_tid_size = 1;
	const long pid = syscall(SYS_clone3, &how, sizeof how);
	if (pid == 0) {
		pause();
		_exit(0);
	}
	if (pid != want) {
		perror("clone3");
		return 2;
	}
	printf("here\n");
	fflush(stdout);
	char c;
	while (read(0, &c, 1) > 0) {
	}
	kill(want, SIGKILL);
	waitpid(want, nullptr, 0);
	return 0;
}
