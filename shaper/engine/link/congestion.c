// SPDX-License-Identifier: Apache-2.0
//
// The congestion window of tcp: Reno (RFC 5681, losses found as by RFC 6675) and CUBIC (RFC
// 9438, without fast convergence).
//
// Acknowledgements are processed by the times at which they reach the sender: all that come
// before the next segment leaves, and no others. So the result does not depend on when it
// is computed. Sizes are in 2^-10 bytes, so that what one acknowledgement adds to a large
// window is not lost in rounding.

#include "congestion.h"

#include "cubic.h"

#define INITIAL_WINDOW 10 // packets, RFC 6928: the least that a window has before its first reduction
#define LEAST_WINDOW 2 // packets, of the slow start threshold: RFC 5681, equation 4
// A segment is at most this share of the window, so that what does not fill a segment leaves
// little of the window unused.
#define WINDOW_SEGMENTS 16

// window_of is the window in 2^-10 bytes. It is a divisor, and a peer may have written 0.
static uint64_t window_of(const struct ddlemu_engine *e)
{
	return umax64(__atomic_load_n(&e->flow->window.cwnd, __ATOMIC_RELAXED), 1 << 10);
}

int64_t window_entry_free(const struct ddlemu_engine *e)
{
	struct ddlemu_flow *f = e->flow;
	if (f->at[0] < DDLEMU_MAX_SEGMENTS)
		return 0;
	struct ddlemu_segment *s = segment_at(f, f->at[0]);
	return s->due == DDLEMU_NEVER ? DDLEMU_NEVER : s->due + reverse_latency(e);
}

bool window_free_entry(const struct ddlemu_engine *e)
{
	struct ddlemu_flow *f = e->flow;
	if (f->at[0] - f->oldest < DDLEMU_MAX_SEGMENTS)
		return true;
	if (f->oldest == f->segments_arrived)
		return false;
	forget_oldest(f);
	return true;
}

// grow_cubic is RFC 9438, 4.2 to 4.5: the acknowledgement of n bytes at time `at`.
static void grow_cubic(const struct ddlemu_engine *e, uint64_t n, int64_t at)
{
	struct ddlemu_window *w = &e->flow->window;
	uint64_t packet = mss(e), cwnd = window_of(e);
	int64_t tick = max64(e->transport->second >> 10, 1);
	if (w->epoch_start == 0) {
		w->epoch_start = at;
		w->k = 0;
		w->w_est = cwnd;
		if (w->w_max > cwnd)
			w->k = cubic_k(w->w_max, cwnd, packet);
		else
			w->w_max = cwnd;
	}
	// Below the window of the last reduction W_est grows by 3(1-beta)/(1+beta) = 9/17 of what Reno adds, then as
	// fast as Reno.
	if (w->w_est < w->prior_cwnd)
		w->w_est += (packet * n << 20) / cwnd * 9 / 17;
	else
		w->w_est += (packet * n << 20) / cwnd;
	int64_t t = (at - w->epoch_start) / tick;
	if (w_cubic(w->w_max, t - w->k, packet) < w->w_est) {
		w->cwnd = umax64(cwnd, w->w_est);
		return;
	}
	uint64_t target = w_cubic(w->w_max, (at - w->epoch_start + round_trip(e)) / tick - w->k, packet);
	target = umin64(umax64(target, cwnd), cwnd + cwnd / 2);
	w->cwnd = cwnd + (target - cwnd) * n / (cwnd >> 10);
}

// grow adds what the acknowledgement of n bytes at time `at` adds.
static void grow(const struct ddlemu_engine *e, uint64_t n, int64_t at)
{
	struct ddlemu_window *w = &e->flow->window;
	uint64_t cwnd = window_of(e);
	if (cwnd < w->ssthresh)
		w->cwnd = cwnd + (n << 10);
	else if (e->transport->congestion != DDLEMU_CUBIC)
		w->cwnd = cwnd + (mss(e) * n << 20) / cwnd; // RFC 5681, equation 3
	else
		grow_cubic(e, n, at);
	w->cwnd = umin64(w->cwnd, MAX_WINDOW);
}

// reduce is fast recovery, once for all that was lost of a window. in_flight is what was not acknowledged: that is as
// far as a window has grown that was open until now.
static void reduce(const struct ddlemu_engine *e, uint64_t offset, uint64_t in_flight)
{
	struct ddlemu_window *w = &e->flow->window;
	if (window_is_open(e))
		w->cwnd = umax64(in_flight, INITIAL_WINDOW * mss(e)) << 10;
	// beta is 0.7: RFC 9438, 4.6.
	uint64_t cwnd = w->cwnd, less = e->transport->congestion == DDLEMU_CUBIC ? cwnd * 7 / 10 : cwnd / 2;
	w->prior_cwnd = w->w_max = cwnd;
	w->epoch_start = 0;
	w->ssthresh = umax64(less, LEAST_WINDOW * mss(e) << 10);
	w->cwnd = w->ssthresh;
	w->recover = offset;
}

// expire is what the retransmission timer does. The loss for which it runs has lowered the
// threshold already.
static void expire(const struct ddlemu_engine *e, uint64_t offset)
{
	struct ddlemu_window *w = &e->flow->window;
	w->cwnd = mss(e) << 10;
	w->epoch_start = 0;
	w->recover = offset;
	w->last_ack = max64(w->last_ack, w->timer);
	w->timer = 0;
}

void window_acknowledge(const struct ddlemu_engine *e, uint64_t offset, int64_t at)
{
	struct ddlemu_window *w = &e->flow->window;
	struct ddlemu_segment *s = segment_at(e->flow, w->next);
	w->next++;
	uint64_t n = s->end - w->acked, in_flight = offset - w->acked + w->recovering;
	w->acked = s->end;
	w->last_ack = max64(w->last_ack, at);
	w->recovering -= umin64(w->recovering, s->recovered * mss(e));
	// The sender sends again what a queue dropped when it knows of that, not when the model does.
	if (s->flags & SEGMENT_DROPPED)
		w->dropped += packets_of(params_at(e, 0), s->bytes) + s->recovered;
	if (s->end <= w->recover)
		return; // sent before the last reduction: the window stays as it is
	if (s->flags & (SEGMENT_LOST | SEGMENT_MARKED)) {
		reduce(e, offset, in_flight);
		if (s->flags & SEGMENT_TIMEOUT)
			w->timer = at + e->transport->rto;
	} else if (w->limited) {
		grow(e, n, at);
	} else {
		w->epoch_start = 0; // a window that is not full does not grow: RFC 9438, 5.8
	}
}

int64_t window_open(const struct ddlemu_engine *e, uint64_t offset, uint64_t n, int64_t ready, int64_t by)
{
	struct ddlemu_flow *f = e->flow;
	struct ddlemu_window *w = &f->window;
	if (w->cwnd == 0)
		w->cwnd = w->ssthresh = MAX_WINDOW;
	for (;;) {
		bool full = w->acked < offset && offset - w->acked + n + w->recovering > w->cwnd >> 10;
		int64_t at = DDLEMU_NEVER;
		if (w->next < f->at[0]) {
			struct ddlemu_segment *s = segment_at(f, w->next);
			if (s->due != DDLEMU_NEVER)
				at = s->first_copy + reverse_latency(e);
			else if (full)
				return DDLEMU_NEVER;
		}
		bool expires = w->timer != 0 && w->timer <= at;
		if (expires)
			at = w->timer;
		if ((!full && at > by) || at == DDLEMU_NEVER)
			return max64(ready, w->last_ack);
		if (expires)
			expire(e, offset);
		else
			window_acknowledge(e, offset, at);
	}
}

void window_sent(const struct ddlemu_engine *e, uint64_t offset)
{
	struct ddlemu_window *w = &e->flow->window;
	uint64_t packet = mss(e), cwnd = w->cwnd >> 10;
	w->max_segment = (uint32_t)umin64(umax64(cwnd / WINDOW_SEGMENTS / packet, 1) * packet, DDLEMU_SEGMENT_BYTES);
	uint64_t in_flight = offset - w->acked + w->recovering;
	w->limited = in_flight + w->max_segment > cwnd || (w->cwnd < w->ssthresh && 2 * in_flight > cwnd);
}

uint32_t window_recover(const struct ddlemu_engine *e, uint64_t offset, uint32_t packets)
{
	struct ddlemu_window *w = &e->flow->window;
	if (w->acked >= offset)
		w->dropped = 0; // nothing is in flight: they were sent again meanwhile
	uint64_t n = umin64(w->dropped, packets);
	w->dropped -= n;
	w->recovering += n * mss(e);
	return (uint32_t)n;
}
