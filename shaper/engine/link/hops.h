// SPDX-License-Identifier: Apache-2.0
//
// The hops of a flow's path: the parameters in force on them, and how a segment occupies one. All flows that share a
// hop, in any process, change it by atomic operations.
#ifndef DDLEMU_LINK_HOPS_H
#define DDLEMU_LINK_HOPS_H

#include "arith.h"
#include "engine.h"

// hop_at is hop number i of the path.
static inline struct ddlemu_hop *hop_at(const struct ddlemu_engine *e, uint32_t i) { return &e->hops[e->path.hop[i]]; }

// params_at is the parameters in force there during this call of flow_advance.
static inline const struct ddlemu_params *params_at(const struct ddlemu_engine *e, uint32_t i)
{
	return &e->forward[i].params;
}

// serialization is the time for which n payload bytes occupy a hop.
static inline int64_t serialization(const struct ddlemu_engine *e, const struct ddlemu_params *p, uint32_t n)
{
	int64_t t = occupancy(p, line_bytes(p, n));
#ifdef DDLEMU_FAULTS
	if (e->rate_fault != NULL)
		t = e->rate_fault(t);
#else
	(void)e;
#endif
	return t;
}

// occupy reserves the resource that is free at *free_at for dur ns, from ready on at the earliest, and
// returns the start. Zero ns reserve nothing.
static inline int64_t occupy(int64_t *free_at, int64_t ready, int64_t dur)
{
	int64_t at = __atomic_load_n(free_at, __ATOMIC_RELAXED);
	int64_t start;
	if (dur == 0)
		return max64(ready, at);
	do
		start = max64(ready, at);
	while (!__atomic_compare_exchange_n(free_at, &at, start + dur, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return start;
}

// add_distortion notes that a step of message msg was possible from ready on, but was made
// at now, and that others occupied the hop until start meanwhile.
static inline void add_distortion(struct ddlemu_flow *f, uint64_t msg, int64_t start, int64_t ready, int64_t now)
{
	if (now > ready && start > ready)
		times_at(f, msg)->distortion += min64(start, now) - ready;
}

// mss is the payload of a full packet.
static inline uint64_t mss(const struct ddlemu_engine *e) { return params_at(e, 0)->payload; }

// reverse_latency is the time that an acknowledgement takes.
static inline int64_t reverse_latency(const struct ddlemu_engine *e)
{
	int64_t t = 0;
	for (uint32_t i = 0; i < e->path.reverse_n; i++)
		t += e->backward[i].params.latency;
	return t;
}

// round_trip is the latency of the path there and back, at least 1 ns.
static inline int64_t round_trip(const struct ddlemu_engine *e)
{
	int64_t t = reverse_latency(e);
	for (uint32_t i = 0; i < e->path.n; i++)
		t += params_at(e, i)->latency;
	return max64(t, 1);
}

#endif
