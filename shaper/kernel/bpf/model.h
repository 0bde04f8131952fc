// SPDX-License-Identifier: Apache-2.0
// What the programs remember of a hop, and how they reserve it: 64-bit nanoseconds of
// CLOCK_MONOTONIC. The arithmetic on a hop's parameters is the link engine's, arith.h.
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

// arith.h is written in the types of stdint.h, which the target has not.
typedef __u8 uint8_t;
typedef __u32 uint32_t;
typedef __s32 int32_t;
typedef __u64 uint64_t;
typedef __s64 int64_t;
#define bool _Bool

#include "../../link/arith.h"

#define INLINE static __always_inline

// What a hop remembers and counts. Written by several CPUs at once: the times by
// compare-and-swap, the counters by atomic additions.
struct hop {
	u64 next_free;
	u64 last_ready; // of a link: when its last packet was ready for the port
	u64 sent, drawn; // of a link: packets that took it, and draws of loss
	u32 bad; // state of the Gilbert-Elliott chain
	u32 unused;
	u64 bytes, line_bytes, packets, drops, busy_ns;
	u64 classes[3];
};

struct table {
	int q[DDLEMU_JITTER_TABLE];
};

// How often a compare-and-swap is tried against other CPUs.
#define TRIES 16

// reserve occupies a hop for dur ns, from ready on at the earliest, and returns the start.
INLINE u64 reserve(struct hop *h, u64 ready, u64 dur)
{
	u64 old = *(volatile u64 *)&h->next_free;
	for (int i = 0; i < TRIES && dur; i++) {
		u64 start = old > ready ? old : ready;
		u64 seen = __sync_val_compare_and_swap(&h->next_free, old, start + dur);
		if (seen == old)
			return start;
		old = seen;
	}
	if (dur)
		old = __sync_fetch_and_add(&h->next_free, dur);
	return old > ready ? old : ready;
}

// in_order is ready, but not before what was ready last.
INLINE u64 in_order(u64 *last, u64 ready)
{
	u64 old = *(volatile u64 *)last;
	for (int i = 0; i < TRIES && old < ready; i++) {
		u64 seen = __sync_val_compare_and_swap(last, old, ready);
		if (seen == old)
			return ready;
		old = seen;
	}
	return old > ready ? old : ready;
}

#define later(a, b) ((a) > (b) ? (a) : (b))
