// SPDX-License-Identifier: Apache-2.0
// Preloaded: the wall clock jumps by two days, back and forth, whenever it is read. The monotonic clock is unchanged.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_gettime)(clockid_t, struct timespec *);

static void step(struct timespec *t)
{
	static unsigned calls;
	const unsigned n = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
	t->tv_sec += n % 2 == 0 ? 86400 : -86400;
	if (n == 1)
		fprintf(stderr, "the wall clock stepped\n");
}

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!real_gettime)
		real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	const int result = real_gettime(id, t);
	if (result == 0 && id == CLOCK_REALTIME)
		step(t);
	return result;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec t;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &t);
	out->tv_sec = t.tv_sec, out->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *out)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	if (out)
		*out = t.tv_sec;
	return t.tv_sec;
}
