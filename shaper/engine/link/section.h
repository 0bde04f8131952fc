// SPDX-License-Identifier: Apache-2.0
//
// What the sections of the engine share. A message meets them in this order: flow.c cuts it
// into segments and moves these over the hops; transport.h and congestion.c say when a
// segment may start; loss.c what becomes of its packets; queue.h when a hop accepts it;
// host.c what the emulated hosts add.
#ifndef DDLEMU_LINK_SECTION_H
#define DDLEMU_LINK_SECTION_H

#include "arith.h"
#include "engine.h"

static inline struct ddlemu_hop *hop_at(const struct ddlemu_engine *e, uint32_t i) { return &e->hops[e->path.hop[i]]; }

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

// occupy reserves what is free at *free_at for dur ns, from ready on at the earliest, and
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

// --- transport.h

static inline bool is_rdma(const struct ddlemu_engine *e) { return e->transport->kind == DDLEMU_RDMA; }

static inline bool is_go_back_n(const struct ddlemu_engine *e) { return is_rdma(e) && !e->transport->selective_repeat; }

// has_window says whether the flow has a congestion window.
static inline bool has_window(const struct ddlemu_engine *e)
{
	return e->transport->congestion != DDLEMU_NO_CONGESTION && e->transport->kind == DDLEMU_TCP;
}

// --- congestion.c

// What happened to a segment, for congestion control.
enum {
	SEGMENT_LOST = 1, // packets of it were lost
	SEGMENT_TIMEOUT = 2, // and lost again when they were retransmitted
	SEGMENT_MARKED = 4, // an ECN mark
	SEGMENT_DROPPED = 8, // a queue dropped it: it occupies nothing behind that queue
};

// mss is the payload of a full packet.
static inline uint64_t mss(const struct ddlemu_engine *e) { return params_at(e, 0)->payload; }

// A window that was never reduced does not limit what is sent. Its cwnd is 0 before the first segment, then MAX_WINDOW.
#define MAX_WINDOW (1ull << 41) // 2^-10 bytes: 2 GiB, twice the largest buffer

static inline bool window_is_open(const struct ddlemu_engine *e)
{
	uint64_t cwnd = e->flow->window.cwnd;
	return cwnd == 0 || cwnd == MAX_WINDOW;
}

int64_t window_entry_free(const struct ddlemu_engine *);
void window_free_entry(const struct ddlemu_engine *);
int64_t window_open(const struct ddlemu_engine *, uint64_t offset, uint64_t n, int64_t ready, int64_t by);
void window_acknowledge(const struct ddlemu_engine *, uint64_t offset, int64_t at);
void window_sent(const struct ddlemu_engine *, uint64_t offset);
uint32_t window_recover(const struct ddlemu_engine *, uint64_t offset, uint32_t packets);

// --- loss.c

// What becomes of a segment's packets.
struct fate {
	uint32_t packets; // that arrive
	uint32_t retransmitted;
	uint32_t retransmit_hops; // the retransmitted ones occupy the hops up to this one
	bool cut; // go-back-N: the receiver discards everything behind these packets
	int64_t recovery; // ns that the recovery adds
	uint32_t flags;
};

// draws_fates says whether a packet can be lost or reordered on the path.
static inline bool draws_fates(const struct ddlemu_engine *e)
{
	for (uint32_t i = 0; i < e->path.n; i++) {
		const struct ddlemu_params *p = params_at(e, i);
		if (can_lose(&p->loss) || p->reorder.p != 0)
			return true;
	}
	return false;
}

struct fate draw_fate(const struct ddlemu_engine *, uint32_t n, bool last, int64_t ready);

// fate_of is what becomes of a segment of n bytes that may start at ready. last: it is the
// last one of its message.
static inline struct fate fate_of(const struct ddlemu_engine *e, uint32_t n, bool last, int64_t ready)
{
	struct fate all_arrive = { .packets = packets_of(params_at(e, 0), n) };
	return draws_fates(e) ? draw_fate(e, n, last, ready) : all_arrive;
}

// --- host.c

static inline bool hosts_cost(const struct ddlemu_engine *e)
{
	return e->transport->host.per_message != 0 || e->transport->host.ns_den != 0;
}

int64_t host_send(const struct ddlemu_engine *, uint64_t msg, int64_t posted, int64_t now);
int64_t host_deliver(const struct ddlemu_engine *, const struct ddlemu_segment *, int64_t now);

// sender_ready is when the sending host is done with message i.
static inline int64_t sender_ready(const struct ddlemu_engine *e, uint64_t i)
{
	return hosts_cost(e) ? times_at(e->flow, i)->ready : send_posted(e->flow, i);
}

#endif
