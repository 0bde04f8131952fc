// SPDX-License-Identifier: Apache-2.0
//
// The link engine: it moves the messages of flows over hops, as pure arithmetic on times.
//
//	flow_post, flow_receive   say what the two ends did, and when
//	flow_advance              makes every step whose time has come
//	flow_next                 the time of the next step
//
// The engine reads no clock and polls nothing. The caller's time may be real (the plugin)
// or virtual (the virtual clock, expect): it only decides when a step is made. Any number of flows, in
// any number of processes, may share hops: hops change by atomic operations alone. One
// thread at a time may advance a flow.
#ifndef DDLEMU_LINK_ENGINE_H
#define DDLEMU_LINK_ENGINE_H

#include "flow.h"

// The most transmissions of one packet where they are drawn at once: the last one arrives.
// Losses for which that would matter are refused (configs.MaxLoss), so that a loss of 1 is
// not an endless loop.
#define DDLEMU_MAX_ATTEMPTS 64
// The most discarded packets for which the Gilbert-Elliott chains are stepped: longer ago
// any chain has forgotten its state.
#define DDLEMU_MAX_DISCARDED 1024

// What a hop has carried in one call of flow_advance, as in ddlemu_counters.
struct ddlemu_carried {
	uint64_t bytes, line_bytes, segments;
	int64_t busy_ns;
};

// What else is known of a record.
enum {
	DDLEMU_RECORD_CE = 1, // the segment carries an ECN mark, of this hop or of one before it
	DDLEMU_RECORD_DROPPED = 2, // a queue has dropped the segment, here or before: it occupied nothing
	DDLEMU_RECORD_REDUCED = 4, // the first segment behind a reduction of the congestion window; at hop 0
};

// One segment on one hop: for readers that explain why a message took so long.
struct ddlemu_hop_record {
	uint32_t flow; // ddlemu_engine.number
	uint32_t hop; // place in the path
	uint64_t msg;
	uint32_t segment; // of the flow, the lower half of its number
	uint32_t bytes; // payload
	uint32_t last; // 1: the last segment of its message
	uint32_t retransmitted; // packets sent again with it, which occupied this hop too
	uint32_t marked; // packets that this hop gave an ECN mark
	uint32_t flags; // DDLEMU_RECORD_...
	int64_t ready; // when it could have occupied the hop
	int64_t start, dur; // when and for how long it did
	int64_t next; // when its first byte is at the next hop
	int64_t finish; // when its last byte is there, or at the receiver
};

// HopRecords that nobody has read yet. The reader sets n to 0.
struct ddlemu_hop_records {
	struct ddlemu_hop_record *at;
	uint64_t n, capacity, lost;
};

// A copy of the parameters in force on a hop: of one block as a whole, see take_in_force.
struct ddlemu_in_force {
	uint32_t hop; // 1 + its number; 0: nothing is copied
	uint32_t block, changes; // of the hop, when it was copied
	int64_t down_since;
	struct ddlemu_params params;
};

// A flow as one process sees it.
struct ddlemu_engine {
	struct ddlemu_flow *flow;
	// A private copy, because it says which hops are written: what the peer does to the
	// shared one later does no harm.
	struct ddlemu_path path;
	const struct ddlemu_transport *transport;
	uint64_t seed;
	struct ddlemu_hop *hops;
	const struct ddlemu_block *blocks; // only take_in_force reads them
	// What is in force on the hops of the path, and on the hops of its reverse, during one call of flow_advance.
	struct ddlemu_in_force forward[DDLEMU_MAX_HOPS], backward[DDLEMU_MAX_HOPS];
	const int32_t *tables; // DDLEMU_JITTER_TABLES of DDLEMU_JITTER_TABLE entries
	uint64_t posts_at_once; // messages that one call of flow_advance reads; 0: all
	struct ddlemu_carried carried[DDLEMU_MAX_HOPS]; // by place in the path
	bool any_carried;
	struct ddlemu_hop_records *records; // where to note what segments do; may be NULL
	uint32_t number; // of the flow, for that
	// Makes a serialization time wrong, for tests of the verdict; may be NULL. Only a build with DDLEMU_FAULTS
	// calls it.
	int64_t (*rate_fault)(int64_t);
};

// flow_write is flow_post for a message that a kernel writes from time t until written.
static inline void flow_write(struct ddlemu_flow *f, uint64_t size, int64_t t, int64_t written)
{
	uint64_t i = read64(&f->posted), end = i == 0 ? 0 : send_end(f, i - 1);
	*send_at(f, i) = (struct ddlemu_send){ .size = size, .end = end + size, .posted = t, .written = written };
	store64(&f->posted, i + 1);
}

// flow_post describes a message of size bytes that the sender handed over at time t, not
// before the one before it. At most DDLEMU_MAX_MESSAGES may be unfinished, see
// ddlemu_results.oldest_msg.
static inline void flow_post(struct ddlemu_flow *f, uint64_t size, int64_t t) { flow_write(f, size, t, 0); }

// flow_receive describes the receiver's irecv for the next message, at time t.
static inline void flow_receive(struct ddlemu_flow *f, uint64_t capacity, int64_t t)
{
	uint64_t i = read64(&f->receives_posted);
	*receive_at(f, i) = (struct ddlemu_receive){ .posted = t, .capacity = capacity };
	store64(&f->receives_posted, i + 1);
}

// flow_next is the time before which flow_advance changes nothing, unless something is
// posted meanwhile.
static inline int64_t flow_next(const struct ddlemu_flow *f)
{
	return __atomic_load_n(&f->published.next, __ATOMIC_RELAXED);
}

// flow_advance makes every step whose time has come by now, and publishes the results.
void flow_advance(struct ddlemu_engine *, int64_t now);

#endif
