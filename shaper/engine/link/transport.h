// SPDX-License-Identifier: Apache-2.0
//
// The protocol above the links. It decides when a segment may start and when a send is
// complete.
//
//	tcp   a segment starts within the send buffer and the receive window;
//	      a send is complete when the send buffer has accepted all of it
//	rdma  a message starts when the sender knows of its receive (clear to send);
//	      a send is complete when its last byte is acknowledged
//
// Acknowledgements take the latency of the reverse path and occupy nothing.
//
// advance.c calls send_allowed, complete_sends and forget_arrived for each segment, and known_read where its table is
// full. They are inline: as calls they made the steps of a tcp flow 4 % slower.
#ifndef DDLEMU_LINK_TRANSPORT_H
#define DDLEMU_LINK_TRANSPORT_H

#include "congestion.h"
#include "host.h"

static inline bool is_rdma(const struct ddlemu_engine *e) { return e->transport->kind == DDLEMU_RDMA; }

static inline bool is_go_back_n(const struct ddlemu_engine *e) { return is_rdma(e) && !e->transport->selective_repeat; }

// segment_with returns the segment that ends at stream offset y or behind it, NULL if there
// is none yet. *cursor is where the last search ended: offsets only grow.
static inline struct ddlemu_segment *segment_with(struct ddlemu_flow *f, uint64_t y, uint64_t *cursor)
{
	*cursor = umax64(*cursor, f->oldest);
	while (*cursor < f->at[0] && segment_at(f, *cursor)->end < y)
		++*cursor;
	return *cursor == f->at[0] ? NULL : segment_at(f, *cursor);
}

// known_arrived is when the sender knows that the stream up to y has arrived.
static inline int64_t known_arrived(const struct ddlemu_engine *e, uint64_t y, uint64_t *cursor)
{
	if (y <= e->flow->forgotten)
		return 0;
	struct ddlemu_segment *s = segment_with(e->flow, y, cursor);
	if (s == NULL || s->due == DDLEMU_NEVER)
		return DDLEMU_NEVER;
	return s->due + reverse_latency(e);
}

// known_read is when the sender knows that segment s was read: it had arrived, and its
// receive was posted.
static inline int64_t known_read(const struct ddlemu_engine *e, const struct ddlemu_segment *s)
{
	if (s->msg >= e->flow->results.receives_seen)
		return DDLEMU_NEVER;
	return max64(s->due, receive_posted(e->flow, s->msg)) + reverse_latency(e);
}

// known_read_to is when the sender knows that the stream up to y was read.
static inline int64_t known_read_to(const struct ddlemu_engine *e, uint64_t y)
{
	struct ddlemu_flow *f = e->flow;
	if (y <= f->forgotten)
		return 0;
	struct ddlemu_segment *s = segment_with(f, y, &f->cursor_window);
	if (s == NULL || s->due == DDLEMU_NEVER)
		return DDLEMU_NEVER;
	return known_read(e, s);
}

// send_allowed is when the transport lets the stream up to `end` be sent, or DDLEMU_NEVER
// if that is not known yet.
static inline int64_t send_allowed(const struct ddlemu_engine *e, uint64_t end)
{
	struct ddlemu_flow *f = e->flow;
	const struct ddlemu_transport *t = e->transport;
	if (t->kind == DDLEMU_RDMA) {
		if (f->cur >= f->results.receives_seen)
			return DDLEMU_NEVER;
		return receive_posted(f, f->cur) + reverse_latency(e);
	}
	int64_t ready = 0;
	if (end > t->send_buffer)
		ready = known_arrived(e, end - t->send_buffer, &f->cursor_send_buffer);
	if (end > t->window && ready != DDLEMU_NEVER)
		ready = max64(ready, known_read_to(e, end - t->window));
	return ready;
}

// complete_sends finds out when sends over tcp are complete: when all of the message fits
// the send buffer.
static inline void complete_sends(const struct ddlemu_engine *e)
{
	struct ddlemu_flow *f = e->flow;
	const struct ddlemu_transport *t = e->transport;
	uint64_t n = f->results.complete_count;
	while (t->kind == DDLEMU_TCP && n < f->known) {
		uint64_t end = send_end(f, n);
		int64_t at = 0;
		if (end > t->send_buffer)
			at = known_arrived(e, end - t->send_buffer, &f->cursor_complete);
		if (at == DDLEMU_NEVER)
			break;
		times_at(f, n)->complete = max64(sender_ready(e, n), at);
		n++;
	}
	f->results.complete_count = n;
}

// delays_sender says whether the sender may still have to wait for what it learns of
// segment s: for its acknowledgement (send buffer) or for its being read (window).
static inline bool delays_sender(const struct ddlemu_engine *e, const struct ddlemu_segment *s)
{
	struct ddlemu_flow *f = e->flow;
	const struct ddlemu_transport *t = e->transport;
	uint64_t next_byte = f->tail + 1; // the end of the bytes sent next, at least
	if (f->cur < f->known)
		next_byte = send_end(f, f->cur) - send_size(f, f->cur) + f->off + 1;
	int64_t acked = s->due + reverse_latency(e);
	if (s->end + t->send_buffer >= next_byte && acked > f->sender_free)
		return true;
	// The same for the oldest send that is not complete.
	uint64_t end = f->tail;
	int64_t posted = f->last_posted;
	if (f->results.complete_count < f->known) {
		end = send_end(f, f->results.complete_count);
		posted = send_posted(f, f->results.complete_count);
	}
	if (s->end + t->send_buffer >= end && acked > posted)
		return true;
	return s->end + t->window >= next_byte && known_read(e, s) > f->sender_free;
}

// forget_arrived forgets the segments that have arrived and that nothing depends on any
// more. A segment that the sender may still wait for is kept, unless messages fill half of
// their table and the sender knows that it was read. *next becomes at most the time at which
// more can be forgotten.
static inline void forget_arrived(const struct ddlemu_engine *e, int64_t now, int64_t *next)
{
	struct ddlemu_flow *f = e->flow;
	while (f->oldest < f->segments_arrived) {
		struct ddlemu_segment *s = segment_at(f, f->oldest);
		bool unacknowledged = has_window(e) && f->oldest >= f->window.next;
		if (!is_rdma(e) && (unacknowledged || delays_sender(e, s))) {
			int64_t known = known_read(e, s);
			if (f->known - s->msg < DDLEMU_MAX_MESSAGES / 2 || known == DDLEMU_NEVER)
				return;
			if (now < known) {
				*next = min64(*next, known);
				return;
			}
			if (unacknowledged)
				window_acknowledge(
					e, segment_at(f, f->at[0] - 1)->end, s->first_copy + reverse_latency(e));
		}
		forget_oldest(f);
	}
}

#endif
