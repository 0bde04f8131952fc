// SPDX-License-Identifier: Apache-2.0
//
// A flow: one connection, in memory that both of its processes may map. It holds
// what the sender posts, what the receiver posts, and the state of the link model.
//
// Who writes what: `sends` and the sender's line only the sender, `receives` and the
// receiver's line only the receiver. Everything from `lock` on belongs to the thread that
// holds `lock`. The lock is only ever tried. If a process dies while it holds the lock, the
// other end learns that its peer died.
//
// Memory order: a count (posted, receives_posted, written, consumed, due_count,
// complete_count, arrived) is stored with release after what it counts, and loaded with
// acquire.
//
// A process may write anything to this memory at any time. So what it posts is read by the
// functions at the end of this file, once for each check: the compiler may read a plain
// variable again after the check.
#ifndef DDLEMU_LINK_FLOW_H
#define DDLEMU_LINK_FLOW_H

#include <stddef.h>

#include "link.h"

#define DDLEMU_NEVER INT64_MAX
// The most segments and messages that a flow keeps. Segments outnumber messages, so that
// unread small messages alone never stall a flow.
#define DDLEMU_MAX_SEGMENTS 2048
#define DDLEMU_MAX_MESSAGES 1024

// What the sender says of a message.
struct ddlemu_send {
	uint64_t size;
	uint64_t end; // stream offset behind its last byte
	int64_t posted;
	// The last byte is written at this time, while the message is on its way already: by a kernel that writes to
	// the memory of another GPU. 0: all of it was there when it was posted.
	int64_t written;
};

// What the receiver says of a message.
struct ddlemu_receive {
	int64_t posted;
	uint64_t capacity;
};

// What the model says of a message.
struct ddlemu_times {
	int64_t ready; // the sending host worker is done with it; kept only where hosts cost time
	int64_t due; // the last byte is at the receiver
	int64_t complete; // the send is complete for the sender
	// How much earlier due could have been, at most, had every step been made in time.
	int64_t distortion;
};

// Part of a message, moved along the path as a unit.
struct ddlemu_segment {
	uint64_t end; // stream offset behind its last byte
	uint64_t msg; // number of its message
	uint64_t number; // of the segment in the flow: names its jitter's draws
	uint32_t bytes; // payload
	uint32_t last; // 1: the last one of its message
	uint32_t retransmitted; // packets sent again with it
	uint32_t retransmit_hops; // they occupy the hops up to this one
	uint32_t recovered; // of these, packets that a queue had dropped from an earlier segment
	uint32_t flags; // SEGMENT_..., see congestion.h
	int64_t previous_dur; // serialization time at the previous hop
	int64_t ready; // when its first byte is at the next hop
	int64_t finish; // when its last byte is at the next hop, if that hop adds no time
	int64_t recovery; // time that the recovery of losses adds
	int64_t first_copy; // when the packets that were not lost are at the receiver
	int64_t due;
};

struct ddlemu_path {
	uint32_t n, reverse_n;
	uint32_t hop[DDLEMU_MAX_HOPS], reverse[DDLEMU_MAX_HOPS];
	uint32_t private_mask; // bit i: everything on hop i comes from hop i-1
	uint32_t link; // the hop whose statistics count the messages
};

// The congestion window, see congestion.c. Sizes are in 2^-10 bytes where they say so.
struct ddlemu_window {
	uint64_t cwnd; // 2^-10 bytes; 0 = nothing was sent yet
	uint64_t ssthresh; // 2^-10 bytes
	uint64_t next; // first segment whose acknowledgement is not processed
	uint64_t acked; // stream offset of those that are
	uint64_t recover; // stream offset sent at the last reduction: one reduction per window
	int64_t last_ack; // when the last acknowledgement came, or the timer expired
	int64_t timer; // when the retransmission timer expires; 0 = it does not run
	uint32_t limited; // 1: the last segment filled the window
	uint32_t max_segment; // bytes that the next segment may hold
	uint64_t dropped; // packets that queues dropped and that are not sent again yet
	uint64_t recovering; // bytes of those that are in flight again
	int64_t last_first_copy; // of the segments so far
	// CUBIC, with the names of RFC 9438.
	int64_t epoch_start; // 0 = this stage of congestion avoidance has not begun
	int64_t k; // 1/1024 seconds
	uint64_t w_max, prior_cwnd, w_est; // 2^-10 bytes
};

// What the model has found out.
struct ddlemu_results {
	int64_t next; // nothing changes before this time, unless somebody posts
	uint64_t posts_seen, receives_seen; // posts that the model has read
	uint64_t arrived; // stream offset
	uint64_t due_count, complete_count; // messages whose times are known
	uint64_t oldest_msg; // the model needs no message before this one
};

struct ddlemu_flow {
	// Written before the other end sees the memory.
	uint64_t magic, fabric_id, id;
	uint64_t size; // of the whole region
	uint64_t ring_off, ring_size;
	struct ddlemu_path path;

	// The sender's line.
	_Alignas(128) uint64_t posted; // messages
	uint64_t written; // stream offset copied into the ring
	uint64_t sends_done; // sends that test has returned

	// The receiver's line.
	_Alignas(128) uint64_t receives_posted; // messages
	uint64_t consumed; // stream offset copied out of the ring
	uint64_t receives_done; // receives that test has returned

	// How the flow ends. Both ends read this line in each call, and it hardly ever changes.
	_Alignas(128) uint32_t sender_closed;
	uint32_t receiver_closed, receive_error; // the receiver's
	uint32_t broken; // enum ddlemu_broken

	// What both ends read in each call. Published at the end of flow_advance, so that the
	// line moves between the cores once.
	_Alignas(128) struct ddlemu_results published;

	// The state of the link model.
	_Alignas(128) uint32_t lock; // enum ddlemu_end of the process that holds it; 0 = free
	struct ddlemu_results results; // not published yet
	uint64_t stalls; // times that the flow kept too many segments to send another one
	uint64_t oldest; // oldest segment kept
	uint64_t at[DDLEMU_MAX_HOPS]; // at[i]: next segment to pass hop i; at[0] = segments made
	uint64_t segments_arrived;
	uint64_t cur, off; // message being cut into segments, and its bytes cut so far
	uint64_t segments, packets; // numbered so far
	uint32_t attempt; // transmissions of the next packet so far
	uint32_t bad; // bit i: hop i's Gilbert-Elliott chain is in the bad state
	int64_t sender_free; // when the last segment left the first hop
	int64_t next_look; // when the flow looks again whether its path is up; in the past if it is
	int64_t last_due;
	int64_t last_delivered; // when the receiving host worker was done with the last message
	int64_t last_ready[DDLEMU_MAX_HOPS]; // of the last segment that passed hop i
	int64_t queue_free[DDLEMU_MAX_HOPS]; // when this flow's own queue behind hop i last had free space again
	int64_t served[DDLEMU_MAX_HOPS]; // when the last segment left the fair hop i
	uint64_t known; // messages that the model has read
	uint64_t tail; // stream offset behind the last of them
	uint64_t forgotten; // stream offset up to which segments are forgotten
	int64_t last_posted;
	int64_t stripes_sent; // when the rails of the message being cut have sent the bytes cut so far
	// Segments at which the last search for an offset ended.
	uint64_t cursor_send_buffer, cursor_complete, cursor_window;
	struct ddlemu_window window;

	_Alignas(128) struct ddlemu_send sends[DDLEMU_MAX_MESSAGES];
	struct ddlemu_receive receives[DDLEMU_MAX_MESSAGES];
	struct ddlemu_times times[DDLEMU_MAX_MESSAGES];
	struct ddlemu_segment kept[DDLEMU_MAX_SEGMENTS];
};

enum ddlemu_end { DDLEMU_SENDER = 1, DDLEMU_RECEIVER };
// DDLEMU_INTERRUPTED: a rank died while its process ran the virtual clock and made the flow's steps.
enum ddlemu_broken { DDLEMU_LINK_DOWN = 1, DDLEMU_CORRUPT, DDLEMU_INTERRUPTED };

static inline uint64_t load64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static inline void store64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
static inline void add64(uint64_t *p, uint64_t v) { __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline uint64_t umax64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint64_t umin64(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Where the posts of message i are written.
static inline struct ddlemu_send *send_at(struct ddlemu_flow *f, uint64_t i)
{
	return &f->sends[i % DDLEMU_MAX_MESSAGES];
}

static inline struct ddlemu_receive *receive_at(struct ddlemu_flow *f, uint64_t i)
{
	return &f->receives[i % DDLEMU_MAX_MESSAGES];
}

static inline struct ddlemu_times *times_at(struct ddlemu_flow *f, uint64_t i)
{
	return &f->times[i % DDLEMU_MAX_MESSAGES];
}

static inline struct ddlemu_segment *segment_at(struct ddlemu_flow *f, uint64_t i)
{
	return &f->kept[i % DDLEMU_MAX_SEGMENTS];
}

// forget_oldest forgets the oldest segment that the flow keeps.
static inline void forget_oldest(struct ddlemu_flow *f)
{
	f->forgotten = segment_at(f, f->oldest)->end;
	f->oldest++;
}

// The values of the posts of message i, each read once and without an order: the caller has loaded the count with
// acquire.
static inline uint64_t read64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline int64_t read_time(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline uint64_t send_size(struct ddlemu_flow *f, uint64_t i) { return read64(&send_at(f, i)->size); }
static inline uint64_t send_end(struct ddlemu_flow *f, uint64_t i) { return read64(&send_at(f, i)->end); }
static inline int64_t send_posted(struct ddlemu_flow *f, uint64_t i) { return read_time(&send_at(f, i)->posted); }
static inline int64_t send_written(struct ddlemu_flow *f, uint64_t i) { return read_time(&send_at(f, i)->written); }
static inline int64_t receive_posted(struct ddlemu_flow *f, uint64_t i) { return read_time(&receive_at(f, i)->posted); }
static inline uint64_t receive_capacity(struct ddlemu_flow *f, uint64_t i)
{
	return read64(&receive_at(f, i)->capacity);
}

// read_send copies what the sender says of message i: for callers that check one of its values and then use it.
static inline struct ddlemu_send read_send(struct ddlemu_flow *f, uint64_t i)
{
	return (struct ddlemu_send){ .size = send_size(f, i),
		.end = send_end(f, i),
		.posted = send_posted(f, i),
		.written = send_written(f, i) };
}

// read_path copies a path from memory that others may write.
static inline struct ddlemu_path read_path(const struct ddlemu_path *from)
{
	_Static_assert(sizeof *from % sizeof(uint32_t) == 0, "a path is words");
	struct ddlemu_path to;
	for (size_t i = 0; i < sizeof to / sizeof(uint32_t); i++)
		((uint32_t *)&to)[i] = __atomic_load_n((const uint32_t *)from + i, __ATOMIC_RELAXED);
	return to;
}

#endif
