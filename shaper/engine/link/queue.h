// SPDX-License-Identifier: Apache-2.0
//
// Queue disciplines: when a hop accepts a segment, and what becomes of one that it does not
// accept. A discipline answers these questions:
//
//	queue_full       does the flow's own queue at the hop have no space? (fair)
//	queue_ready      when is it this segment's turn in the flow's own queue? (fair)
//	queue_decided    from when on is the answer of queue_drops known?
//	queue_earliest   when may the hop start the segment, and what buffer does that reserve? (lossless)
//	queue_drops      is a segment that would wait so long dropped? (taildrop)
//	queue_marks      does it get an ECN mark?
#ifndef DDLEMU_LINK_QUEUE_H
#define DDLEMU_LINK_QUEUE_H

#include "section.h"

// --- fair: a queue for each flow, served in turn, with credits that come back at once

// queue_full says whether n more bytes have no space in the flow's own queue at hop i. Bytes
// that are in flight to the queue count too. In addition to the limit, as much may be in
// flight as the latency of the hop before carries.
static inline bool queue_full(const struct ddlemu_engine *e, uint32_t i, uint32_t n)
{
	if (i >= e->path.n)
		return false;
	const struct ddlemu_params *p = params_at(e, i);
	if (p->queue.policy != DDLEMU_FAIR || p->queue.limit_ns == 0)
		return false;
	int64_t dur = serialization(e, p, n);
	int64_t limit = p->queue.limit_ns + params_at(e, i - 1)->latency + dur;
	return (int64_t)(e->flow->at[i - 1] - e->flow->at[i]) * dur >= limit;
}

// queue_ready is when the segment, which is at hop i at s->ready, may occupy it. A fair hop
// serves one segment of a flow at a time, so that all flows that wait take turns.
static inline int64_t queue_ready(const struct ddlemu_engine *e, uint32_t i, const struct ddlemu_segment *s)
{
	int64_t ready = max64(s->ready, e->flow->queue_free[i]);
	return params_at(e, i)->queue.policy == DDLEMU_FAIR ? max64(ready, e->flow->served[i]) : ready;
}

// --- taildrop

// queue_decided is the earliest time at which the step of a segment, which occupies the hop
// for dur ns from ready on, may be made. A segment that may be dropped has to be there:
// otherwise a long segment would get the last space before a short one that is there first.
static inline int64_t queue_decided(
	const struct ddlemu_engine *e, const struct ddlemu_params *p, int64_t ready, int64_t dur)
{
	return p->queue.policy == DDLEMU_TAIL_DROP && has_window(e) ? ready : ready - dur;
}

static inline bool queue_drops(const struct ddlemu_params *p, int64_t wait)
{
	return p->queue.policy == DDLEMU_TAIL_DROP && p->queue.limit_ns > 0 && wait > p->queue.limit_ns;
}

static inline bool queue_marks(const struct ddlemu_params *p, int64_t wait)
{
	return p->queue.ecn_ns > 0 && wait > p->queue.ecn_ns;
}

// --- lossless: back-pressure

// A switch has a buffer of as many bytes as the queue limit for each line into it, a NIC's
// or another switch's, as PFC accounts per ingress port and InfiniBand gives credits. n
// bytes that wait there for w occupy n of its Q bytes for w. So by Little's law a line whose
// bytes wait w has a rate of at most Q/w: each segment reserves w * n/Q ns of the buffer,
// where w is the wait at its next hop now. A line may be ahead of that by the time that Q
// takes, because the buffer is empty at first.
//
// This is the one place where the current time enters the arithmetic: w is the wait now.

// buffer_time is how long n bytes that are sent to hop i now reserve the buffer in which
// they wait; 0 if the hop delays nobody.
static inline int64_t buffer_time(const struct ddlemu_engine *e, uint32_t i, uint32_t n, int64_t now)
{
	const struct ddlemu_params *p = params_at(e, i);
	if (p->queue.policy != DDLEMU_LOSSLESS || p->queue.limit_ns == 0)
		return 0;
	int64_t dur = serialization(e, p, n), limit = max64(p->queue.limit_ns, dur);
	int64_t wait = __atomic_load_n(&hop_at(e, i)->next_free, __ATOMIC_RELAXED) - now;
	return wait <= limit ? 0 : (int64_t)((unsigned __int128)wait * (uint64_t)dur / (uint64_t)limit);
}

// geometric_mean of two positive numbers, rounded down: Newton's method from above.
static inline int64_t geometric_mean(int64_t a, int64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * (uint64_t)b;
	uint64_t hi = (uint64_t)(product >> 64), lo = (uint64_t)product;
	int length = hi > 0 ? 128 - __builtin_clzll(hi) : 64 - __builtin_clzll(lo);
	uint64_t x = 1ull << (length + 1) / 2;
	for (;;) {
		uint64_t y = (x + (uint64_t)(product / x)) / 2;
		if (y >= x)
			return (int64_t)x;
		x = y;
	}
}

struct buffer_grant {
	int64_t start; // the earliest
	int64_t reserve; // ns of the buffer behind the hop
};

// next_queue is the next hop behind hop i at which n bytes, which occupy hop i for dur, can
// wait; path.n if there is none. At a private hop that is at least as fast nothing waits.
static inline uint32_t next_queue(const struct ddlemu_engine *e, uint32_t i, uint32_t n, int64_t dur)
{
	for (uint32_t j = i + 1; j < e->path.n; j++) {
		const struct ddlemu_params *p = params_at(e, j);
		if (!(e->path.private_mask >> j & 1) || serialization(e, p, n) > dur || p->queue.policy == DDLEMU_FAIR)
			return j;
	}
	return e->path.n;
}

// queue_earliest is the earliest time at which hop i may start n bytes, which occupy it for
// dur ns and are ready, given the buffer that is reserved already.
static inline struct buffer_grant queue_earliest(
	const struct ddlemu_engine *e, uint32_t i, uint32_t n, int64_t dur, int64_t ready, int64_t now)
{
	struct buffer_grant grant = { ready, 0 };
	uint32_t j = next_queue(e, i, n, dur);
	if (j == e->path.n)
		return grant;
	struct ddlemu_hop *h = hop_at(e, i);
	const struct ddlemu_params *p = params_at(e, j);
	if (p->queue.policy != DDLEMU_LOSSLESS || p->queue.limit_ns == 0)
		return grant;
	int64_t limit = max64(p->queue.limit_ns, serialization(e, p, n)); // space for one segment at least
	int64_t space_at = __atomic_load_n(&h->buffer_free, __ATOMIC_RELAXED) - limit;
	int64_t free_at = max64(ready, __atomic_load_n(&h->next_free, __ATOMIC_RELAXED));
	if (space_at > free_at) {
		grant.start = space_at;
		add64(&h->counters.pauses, 1);
		add64((uint64_t *)&h->counters.paused_ns, (uint64_t)(space_at - free_at));
	}
	grant.reserve = buffer_time(e, j, n, now);
	// If the next hop is itself delayed by back-pressure, its wait is stale when this segment
	// gets there. Several such hops would send too much and too little in turn. So the
	// reservation is the geometric mean of two: for the wait at the next hop, and for the
	// wait at the hop after it.
	if (grant.reserve > 0 && j + 1 < e->path.n) {
		int64_t behind = buffer_time(e, j + 1, n, now);
		if (behind > 0)
			grant.reserve = geometric_mean(grant.reserve, behind);
	}
	return grant;
}

#endif
