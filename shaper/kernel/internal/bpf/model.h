// SPDX-License-Identifier: Apache-2.0
// The state of a hop and its reservation. Times are CLOCK_MONOTONIC in ns. The arithmetic on a
// hop's parameters is the link engine's, arith.h.
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

// arith.h uses the types of stdint.h, which this target does not have.
typedef __u8 uint8_t;
typedef __u32 uint32_t;
typedef __s32 int32_t;
typedef __u64 uint64_t;
typedef __s64 int64_t;
#define bool _Bool

#include "../../../engine/link/arith.h"

#define INLINE static __always_inline

// The state and the counters of a hop. Several CPUs write them concurrently: the times by
// compare-and-swap, the counters by atomic additions.
struct hop {
	u64 next_free;
	u64 last_ready; // of a link: when its last packet was at the receive port
	u64 sent, drawn; // of a link: counters of the draws of jitter and of loss
	u32 bad; // state of the Gilbert-Elliott chain
	u32 unused;
	u64 bytes, line_bytes, packets, drops, busy_ns;
	u64 classes[3];
};

struct table {
	int q[DDLEMU_JITTER_TABLE];
};

// How often a compare-and-swap is tried. BPF loops need a bound.
#define TRIES 16

// reserve occupies a hop for dur ns, from ready on or from when the hop is free, and returns the
// start.
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

// in_order returns ready, or the time of the previous packet if that is later, and stores it.
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

// draw_loss draws whether hop n loses packet k, and advances the hop's Gilbert-Elliott chain. A draw does one of four
// things to the state, each of which is one atomic operation: so CPUs that draw at once all advance the chain.
INLINE bool draw_loss(const struct ddlemu_loss *l, u64 seed, struct hop *h, u32 n, u64 k)
{
	bool from_good = 0, from_bad = 1; // the state after this draw
	bool lost_if_good = loses(l, seed, n, 0, k, &from_good);
	bool lost_if_bad = loses(l, seed, n, 0, k, &from_bad);
	u32 old;
	if (from_good == from_bad)
		old = __sync_lock_test_and_set(&h->bad, (u32)from_good);
	else if (from_good)
		old = __sync_fetch_and_xor(&h->bad, 1);
	else
		old = *(volatile u32 *)&h->bad;
	return old ? lost_if_bad : lost_if_good;
}

#define later(a, b) ((a) > (b) ? (a) : (b))
