// SPDX-License-Identifier: Apache-2.0
//
// The congestion window of tcp: when it lets a segment be sent, and what acknowledgements do to it.
#ifndef DDLEMU_LINK_CONGESTION_H
#define DDLEMU_LINK_CONGESTION_H

#include "hops.h"

// What happened to a segment, for congestion control.
enum {
	SEGMENT_LOST = 1, // packets of it were lost
	SEGMENT_TIMEOUT = 2, // and lost again when they were retransmitted
	SEGMENT_MARKED = 4, // an ECN mark
	SEGMENT_DROPPED = 8, // a queue dropped it: it occupies nothing behind that queue
};

// A window that was never reduced does not limit the sender. Its cwnd is 0 before the first segment, then MAX_WINDOW.
#define MAX_WINDOW (1ull << 41) // 2^-10 bytes: 2 GiB, twice the largest buffer

// has_window says whether the flow has a congestion window.
static inline bool has_window(const struct ddlemu_engine *e)
{
	return e->transport->congestion != DDLEMU_NO_CONGESTION && e->transport->kind == DDLEMU_TCP;
}

static inline bool window_is_open(const struct ddlemu_engine *e)
{
	uint64_t cwnd = e->flow->window.cwnd;
	return cwnd == 0 || cwnd == MAX_WINDOW;
}

// The functions below are for flows that have a congestion window.

// When the sender has the acknowledgement of the segment whose table entry the next one needs, 0 if that entry is free:
// small segments fill the table before they fill the buffers. DDLEMU_NEVER if that is not known yet.
int64_t window_entry_free(const struct ddlemu_engine *);
// Forgets the segment whose table entry the next one needs. False if it has not arrived yet: the sender has its
// acknowledgement before the next one leaves, but a step may be made one serialization time earlier.
bool window_free_entry(const struct ddlemu_engine *);
// When the window lets the next n bytes of the stream, at offset, be sent, which otherwise may start at ready;
// DDLEMU_NEVER if that is not known yet. It processes the acknowledgements that come until the time `by`.
int64_t window_open(const struct ddlemu_engine *, uint64_t offset, uint64_t n, int64_t ready, int64_t by);
// Processes the next segment's acknowledgement, which comes at time `at`. The stream was sent up to offset.
void window_acknowledge(const struct ddlemu_engine *, uint64_t offset, int64_t at);
// Notes that the stream was sent up to offset, and decides how long the next segment may be.
void window_sent(const struct ddlemu_engine *, uint64_t offset);
// How many packets that queues have dropped are sent again beside a segment of so many packets.
uint32_t window_recover(const struct ddlemu_engine *, uint64_t offset, uint32_t packets);

#endif
