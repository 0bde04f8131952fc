// SPDX-License-Identifier: Apache-2.0
//
// A busy-polling thread that loads the host like a thread of a run, see poll.c.
#ifndef DDLEMU_HOST_POLL_H
#define DDLEMU_HOST_POLL_H

#include <stdint.h>

// Buckets of gaps between polls: four per power of two; gaps below 8 ns have one each. The last bucket begins at
// 2^32 x 1.75 ns, 7.5 s.
#define HOST_BUCKETS 128
#define HOST_BLOCK (64u << 10)

struct host_gaps {
	uint64_t count[HOST_BUCKETS];
	uint64_t total[HOST_BUCKETS]; // their sum, ns
	int64_t max;
};

struct host_thread {
	// Set by the caller.
	int64_t start, end; // CLOCK_MONOTONIC, ns
	int64_t slice; // ns of one phase
	uint32_t odd; // copies in the last of four phases, otherwise in the second
	uint64_t ring_size, buffer_size; // multiples of HOST_BLOCK
	char *ring, *from, *to;
	int *stop;
	// Results.
	uint64_t copied; // bytes copied in and out
	int64_t copy_ns; // time of the rounds that copied
	struct host_gaps quiet, busy; // while no thread copies, while half of them do
};

void host_poll(struct host_thread *t);

// host_stop ends all threads that have this stop word.
void host_stop(int *stop);

#endif
