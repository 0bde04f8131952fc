// SPDX-License-Identifier: Apache-2.0
//
// The clocks of a rank.

#ifndef DDLEMU_RANK_CLOCK_H
#define DDLEMU_RANK_CLOCK_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "api.h"

// Returns CLOCK_MONOTONIC in ns.
static inline int64_t monotonic_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// Returns the time of the fabric in ns: a virtual clock's, if there is one.
static inline int64_t fabric_now(void) { return api.ddlemuSoftNow != NULL ? api.ddlemuSoftNow() : monotonic_ns(); }

// Waits until CLOCK_MONOTONIC is start, 0 for not at all, and returns by how many ns it is later than that. It spins,
// because a sleeping thread can get its core back a time slice late. It yields, because another rank may need this core
// to start in time.
static inline int64_t wait_for_start(int64_t start)
{
	if (start == 0)
		return 0;
	while (monotonic_ns() < start)
		sched_yield();
	return monotonic_ns() - start;
}

#endif
