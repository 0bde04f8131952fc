// SPDX-License-Identifier: Apache-2.0
// Preloaded: the wall clock jumps by a day, back and forth, ten times a second. The monotonic clock is left alone, as
// the kernel leaves it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int (*real_gettime)(clockid_t, struct timespec *);

static void step(struct timespec *t) {
  static int said;
  if (t->tv_nsec / 100000000 % 2 == 0) return;
  t->tv_sec += t->tv_nsec / 100000000 % 4 == 1 ? 86400 : -86400;
  if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) fprintf(stderr, "the wall clock stepped\n");
}

int clock_gettime(clockid_t id, struct timespec *t) {
  if (!real_gettime) real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  const int result = real_gettime(id, t);
  if (result == 0 && id == CLOCK_REALTIME) step(t);
  return result;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  struct timespec t;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &t);
  out->tv_sec = t.tv_sec, out->tv_usec = t.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (out) *out = t.tv_sec;
  return t.tv_sec;
}
