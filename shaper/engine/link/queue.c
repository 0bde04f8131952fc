// SPDX-License-Identifier: Apache-2.0

#include "queue.h"

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
static int64_t buffer_time(const struct ddlemu_engine *e, uint32_t i, uint32_t n, int64_t now)
{
	const struct ddlemu_params *p = params_at(e, i);
	if (p->queue.policy != DDLEMU_LOSSLESS || p->queue.limit_ns == 0)
		return 0;
	int64_t dur = serialization(e, p, n), limit = max64(p->queue.limit_ns, dur);
	int64_t wait = __atomic_load_n(&hop_at(e, i)->next_free, __ATOMIC_RELAXED) - now;
	return wait <= limit ? 0 : (int64_t)((unsigned __int128)wait * (uint64_t)dur / (uint64_t)limit);
}

// geometric_mean of two positive numbers, rounded down: Newton's method from above.
static int64_t geometric_mean(int64_t a, int64_t b)
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

// next_queue is the next hop behind hop i at which n bytes, which occupy hop i for dur, can
// wait; path.n if there is none. At a private hop that is at least as fast nothing waits.
static uint32_t next_queue(const struct ddlemu_engine *e, uint32_t i, uint32_t n, int64_t dur)
{
	for (uint32_t j = i + 1; j < e->path.n; j++) {
		const struct ddlemu_params *p = params_at(e, j);
		if (!(e->path.private_mask >> j & 1) || serialization(e, p, n) > dur || p->queue.policy == DDLEMU_FAIR)
			return j;
	}
	return e->path.n;
}

struct buffer_grant queue_earliest(
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
