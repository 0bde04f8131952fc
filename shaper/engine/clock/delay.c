// SPDX-License-Identifier: Apache-2.0

#include "delay.h"

#ifdef DDLEMU_FAULTS

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct {
	long long most, one_in; // us; 0: no delays
	int read;
} delays;

static void read_delays(void)
{
	const char *s = getenv("DDLEMU_FAULT");
	if (s == NULL || sscanf(s, "clock %lld %lld", &delays.most, &delays.one_in) != 2)
		delays.most = 0;
	delays.read = 1;
}

// random_number is different in each thread and run (xorshift64*, Vigna 2016).
static uint64_t random_number(void)
{
	static __thread uint64_t x;
	if (x == 0) {
		struct timespec t;
		clock_gettime(CLOCK_MONOTONIC, &t);
		x = (uint64_t)t.tv_nsec ^ (uint64_t)(uintptr_t)&x ^ 1;
	}
	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	return x * 2685821657736338717u >> 16;
}

void clock_delay(void)
{
	if (!delays.read)
		read_delays();
	if (delays.most == 0 || random_number() % (uint64_t)delays.one_in != 0)
		return;
	struct timespec t = { .tv_nsec = (long)(random_number() % (uint64_t)delays.most) * 1000 };
	nanosleep(&t, NULL);
}

void clock_death(void)
{
	static long long steps, last = -1;
	const char *s = last < 0 ? getenv("DDLEMU_FAULT") : NULL;
	if (last < 0 && (s == NULL || sscanf(s, "scheduler %lld", &last) != 1))
		last = 0;
	if (last > 0 && ++steps == last)
		raise(SIGKILL);
}

#endif
