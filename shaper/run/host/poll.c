// SPDX-License-Identifier: Apache-2.0
//
// A busy-polling thread, like a rank's progress thread. It reads the clock and yields, as NCCL does after a round of
// tests that completed nothing, and records the gaps between its polls. In one of four phases it also copies one block
// of 64 KiB per round, the maximum of one test of the plugin: into a ring, and out of it half a ring behind, where no
// cache of the core has it any more. All threads have the same phases, by the clock: no thread copies, the even ones
// copy, no thread copies, the odd ones copy.
//
// This is C because Go's scheduler preempts a goroutine that runs for 10 ms, and the preemption would be measured.
#include "poll.h"

#include <sched.h>
#include <string.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static unsigned bucket(uint64_t gap)
{
	if (gap < 8)
		return (unsigned)gap;
	unsigned e = 63 - (unsigned)__builtin_clzll(gap);
	unsigned b = (e - 1) * 4 + (unsigned)(gap >> (e - 2) & 3);
	return b < HOST_BUCKETS ? b : HOST_BUCKETS - 1;
}

static void record(struct host_gaps *g, int64_t gap)
{
	unsigned b = bucket((uint64_t)gap);
	g->count[b]++;
	g->total[b] += (uint64_t)gap;
	if (gap > g->max)
		g->max = gap;
}

// copy moves one block in and one out.
static void copy(struct host_thread *t, uint64_t at)
{
	uint64_t in = at % t->ring_size, out = (at + t->ring_size / 2) % t->ring_size;
	uint64_t buffer = at % t->buffer_size;
	memcpy(t->ring + in, t->from + buffer, HOST_BLOCK);
	memcpy(t->to + buffer, t->ring + out, HOST_BLOCK);
}

void host_poll(struct host_thread *t)
{
	int64_t last = now();
	while (last < t->start) {
		sched_yield();
		last = now();
	}
	while (last < t->end && !__atomic_load_n(t->stop, __ATOMIC_RELAXED)) {
		unsigned phase = (unsigned)((last - t->start) / t->slice) % 4;
		int copies = phase == (t->odd ? 3 : 1);
		if (copies)
			copy(t, t->copied);
		sched_yield();
		int64_t time = now();
		if (copies) {
			t->copied += HOST_BLOCK;
			t->copy_ns += time - last;
		} else {
			record(phase % 2 ? &t->busy : &t->quiet, time - last);
		}
		last = time;
	}
}

void host_stop(int *stop) { __atomic_store_n(stop, 1, __ATOMIC_RELAXED); }
