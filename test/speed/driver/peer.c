// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "peer.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct shared *shared;
int side;

void fail(const char *what)
{
	fprintf(stderr, "speed: %s: %s\n", what, strerror(errno));
	_exit(1);
}

void *map_shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p == MAP_FAILED)
		fail("map shared memory");
	return p;
}

// pin keeps this process on the nth usable core, if there are two.
static void pin(int n)
{
	cpu_set_t all, one;
	if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2)
		return;
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &all) && n-- == 0)
			CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
}

void together(void (*f)(void))
{
	if (shared == NULL)
		shared = map_shared(sizeof *shared);
	memset(shared, 0, sizeof *shared);
	pid_t child[2];
	for (int i = 0; i < 2; i++) {
		child[i] = fork();
		if (child[i] < 0)
			fail("fork");
		if (child[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			side = i;
			pin(i);
			f();
			exit(0);
		}
	}
	for (int i = 0, status; i < 2; i++) {
		// Wait for either process. If one fails, the other would wait for it for ever.
		pid_t pid = wait(&status);
		if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		kill(child[pid == child[0]], SIGKILL);
		exit(1);
	}
}

void barrier(void)
{
	uint64_t n = __atomic_add_fetch(&shared->arrived[side], 1, __ATOMIC_ACQ_REL);
	unsigned rounds = 0;
	while (__atomic_load_n(&shared->arrived[1 - side], __ATOMIC_ACQUIRE) < n)
		relax(&rounds);
}

int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

double cpu_seconds(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		(double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void relax(unsigned *rounds)
{
	if (++*rounds % 256 == 0)
		sched_yield();
#if defined(__x86_64__)
	else
		__builtin_ia32_pause();
#endif
}
