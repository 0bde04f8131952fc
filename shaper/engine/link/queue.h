// SPDX-License-Identifier: Apache-2.0
//
// Queue disciplines: when a hop accepts a segment, and what becomes of one that it does not
// accept. A discipline answers these questions:
//
//	queue_full       does the flow's own queue at the hop have no space? (fair)
//	queue_ready      when does the flow's own queue serve this segment? (fair)
//	queue_decided    from when on is the answer of queue_drops known?
//	queue_earliest   when may the hop start the segment, and what buffer does that reserve? (lossless)
//	queue_drops      is a segment that would wait so long dropped? (taildrop)
//	queue_marks      does it get an ECN mark?
#ifndef DDLEMU_LINK_QUEUE_H
#define DDLEMU_LINK_QUEUE_H

#include "congestion.h"

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
// serves one segment of a flow at a time, so that all flows that wait are served round-robin.
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

struct buffer_grant {
	int64_t start; // the earliest
	int64_t reserve; // ns of the buffer behind the hop
};

// queue_earliest is the earliest time at which hop i may start n bytes, which occupy it for dur ns and are ready, given
// the buffer that is reserved already. It reserves nothing.
struct buffer_grant queue_earliest(
	const struct ddlemu_engine *, uint32_t i, uint32_t n, int64_t dur, int64_t ready, int64_t now);

#endif
