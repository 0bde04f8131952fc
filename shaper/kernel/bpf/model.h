// SPDX-License-Identifier: Apache-2.0
// The link model (package link) in eBPF: the same arithmetic, in 64-bit nanoseconds of
// CLOCK_MONOTONIC. TestVectors holds it to the Go code.
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define INLINE static __always_inline

// What is in force on a hop: link.Params, times scaled.
struct params {
	u64 ns_num, ns_den; // w wire bytes take ceil(w*num/den) ns; den 0 = no time
	s64 latency, jitter;
	u64 loss_p, bad_p, good_to_bad, bad_to_good; // thresholds of 64-bit draws
	u64 queue_ns; // 0 = unbounded
	u32 jitter_kind, tail_drop;
	u32 framing, down;
};

// What a hop remembers and counts. Written by several CPUs at once: the times by
// compare-and-swap, the counters by atomic additions.
struct hop {
	u64 next_free;
	u64 last_ready; // of a link: when its last packet was ready for the port
	u64 sent, drawn; // of a link: packets that took it, and draws of loss
	u32 bad; // state of the Gilbert-Elliott chain
	u32 unused;
	u64 bytes, wire, packets, drops, busy_ns;
	u64 classes[3];
};

#define TABLE_SIZE 4096

struct table {
	int q[TABLE_SIZE + 1]; // the last one twice
};

enum { NO_JITTER, UNIFORM, NORMAL }; // then pareto and table
enum { DRAW_JITTER = 1, DRAW_LOSS, DRAW_STATE };

INLINE u64 mix(u64 z)
{
	z += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

// link.Draw
INLINE u64 draw(u64 seed, u32 hop, u32 kind, u64 flow, u64 counter)
{
	u64 h = mix(seed ^ 0x9e3779b97f4a7c15 * ((u64)hop << 8 | kind));
	h = mix(h ^ flow);
	return mix(h ^ counter);
}

// link.Params.Occupy
INLINE u64 occupy(const struct params *p, u64 wire)
{
	if (!p->ns_den)
		return 0;
	return (wire * p->ns_num + p->ns_den - 1) / p->ns_den;
}

// link.JitterParams.sample; t is the table of the kind, if it has one.
INLINE s64 sample(u32 kind, s64 value, u64 d, const struct table *t)
{
	if (kind == NO_JITTER)
		return 0;
	if (kind == UNIFORM)
		return value * ((s64)(d >> 44) - (1 << 19)) >> 19;
	if (!t)
		return 0;
	u32 i = d >> 52 & (TABLE_SIZE - 1);
	s64 f = d >> 36 & 0xffff;
	s64 a = t->q[i];
	s64 b = t->q[i + 1];
	s64 q = a + ((b - a) * f >> 16);
	return (s64)((u64)value >> 16) * q + ((s64)(value & 0xffff) * q >> 16);
}

// link.LossParams.Lost
INLINE int lost(const struct params *p, u64 seed, u32 hop, u64 counter, u32 *bad)
{
	u64 chance = p->loss_p;
	if (p->good_to_bad) {
		u64 change = p->good_to_bad;
		if (*bad) {
			chance = p->bad_p;
			change = p->bad_to_good;
		}
		if (draw(seed, hop, DRAW_STATE, 0, counter) < change)
			*bad = !*bad;
	}
	return draw(seed, hop, DRAW_LOSS, 0, counter) < chance;
}

// How often a compare-and-swap is tried against other CPUs.
#define TRIES 16

// link.Hop.Reserve
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
