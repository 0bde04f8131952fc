// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on the parameters of one hop that needs no state: line bytes, serialization
// time, random draws. The engine and the eBPF programs share it.
#ifndef DDLEMU_LINK_ARITH_H
#define DDLEMU_LINK_ARITH_H

#include "link.h"

#define ARITH static inline __attribute__((always_inline))

// --- line bytes and time

// packets_of is the number of packets that carry n payload bytes. An empty message is one packet.
ARITH uint32_t packets_of(const struct ddlemu_params *p, uint32_t n)
{
	return n == 0 ? 1 : (n + p->payload - 1) / p->payload;
}

ARITH uint64_t line_bytes(const struct ddlemu_params *p, uint32_t n)
{
	return n + (uint64_t)packets_of(p, n) * p->per_packet;
}

// occupancy is the time for which so many line bytes (at most 256 KiB) occupy the hop,
// rounded up so that the rate is never exceeded.
ARITH int64_t occupancy(const struct ddlemu_params *p, uint64_t line)
{
	if (p->ns_den == 0)
		return 0;
	return (int64_t)((line * p->ns_num + p->ns_den - 1) / p->ns_den);
}

#ifndef __bpf__

// The largest message for which a host's time is exact: 2^36 bytes x 8e9 x 1024 /
// MinBandwidth < 2^60 ns.
#define DDLEMU_MAX_HOST_MESSAGE (1ull << 36)

// host_time is the time for which a message of so many bytes keeps a host worker busy,
// rounded up.
ARITH int64_t host_time(const struct ddlemu_host *h, uint64_t size)
{
	if (h->ns_den == 0)
		return h->per_message;
	if (size > DDLEMU_MAX_HOST_MESSAGE)
		size = DDLEMU_MAX_HOST_MESSAGE;
	unsigned __int128 ns = (unsigned __int128)size * h->ns_num;
	return h->per_message + (int64_t)((ns + h->ns_den - 1) / h->ns_den);
}

#endif

// --- draws

// Each kind of draw has its own stream, so that loss on a link does not change its jitter.
enum { DRAW_JITTER = 1, DRAW_LOSS, DRAW_STATE, DRAW_REORDER };

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
ARITH uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

// draw is a counter-based random number generator: its 64 bits depend on the arguments alone.
ARITH uint64_t draw(uint64_t seed, uint32_t hop, uint32_t kind, uint64_t flow, uint64_t counter)
{
	uint64_t h = mix(seed ^ 0x9e3779b97f4a7c15ull * ((uint64_t)hop << 8 | kind));
	return mix(mix(h ^ flow) ^ counter);
}

// jitter_of turns a draw into jitter in ns. A table holds quantiles in units of 2^-16 of
// the jitter's value, entry i the one at (i + 1/2) / DDLEMU_JITTER_TABLE.
ARITH int64_t jitter_of(const struct ddlemu_jitter *j, uint64_t d, const int32_t *table)
{
	if (j->kind == DDLEMU_NO_JITTER)
		return 0;
	// 20 bits of the draw: the value is below 2^44 ns, so that the product fits 64 bits.
	if (j->kind == DDLEMU_UNIFORM)
		return j->value * ((int64_t)(d >> 44) - (1 << 19)) >> 19;
	if (!table)
		return 0;
	// 12 bits select the entry, 16 bits interpolate to the next one.
	uint32_t i = d >> 52 & (DDLEMU_JITTER_TABLE - 1);
	int64_t fraction = d >> 36 & 0xffff;
	uint32_t next = i + 1 < DDLEMU_JITTER_TABLE ? i + 1 : i;
#ifdef __bpf__
	// The verifier has to see that the index is in the table.
	asm volatile("" : "+r"(next));
	next &= DDLEMU_JITTER_TABLE - 1;
#endif
	int64_t a = table[i], b = table[next];
	int64_t q = a + ((b - a) * fraction >> 16);
	return (int64_t)((uint64_t)j->value >> 16) * q + ((int64_t)(j->value & 0xffff) * q >> 16);
}

// jitter_table is the table that a kind of jitter draws from, NULL if it needs none.
ARITH const int32_t *jitter_table(const int32_t *tables, uint32_t kind)
{
	return kind < DDLEMU_NORMAL ? (const int32_t *)0 : tables + (kind - DDLEMU_NORMAL) * DDLEMU_JITTER_TABLE;
}

// loses draws whether a packet is lost. counter names the packet; *bad is the state of the
// Gilbert-Elliott chain of the flow on this hop, stepped once per packet.
ARITH bool loses(const struct ddlemu_loss *l, uint64_t seed, uint32_t hop, uint64_t flow, uint64_t counter, bool *bad)
{
	uint64_t p = l->p;
	if (l->good_to_bad != 0) {
		uint64_t change = l->good_to_bad;
		if (*bad) {
			p = l->bad_p;
			change = l->bad_to_good;
		}
		if (draw(seed, hop, DRAW_STATE, flow, counter) < change)
			*bad = !*bad;
	}
	return draw(seed, hop, DRAW_LOSS, flow, counter) < p;
}

ARITH bool can_lose(const struct ddlemu_loss *l) { return (l->p | l->good_to_bad) != 0; }

// overtakes draws whether a packet arrives early.
ARITH bool overtakes(const struct ddlemu_reorder *r, uint64_t seed, uint32_t hop, uint64_t flow, uint64_t counter)
{
	return r->p != 0 && draw(seed, hop, DRAW_REORDER, flow, counter) < r->p;
}

#endif
