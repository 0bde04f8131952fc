// SPDX-License-Identifier: Apache-2.0
//
// The event loop: it decides which flow makes its steps when. The virtual clock runs it on the flows of a fabric that
// is up, `expect`, `verify` and others on flows in private memory (loop.go, private.c). Its rules are:
//
// - Steps are made in the order of their times. At equal times the order of the flows decides, or a draw.
// - What the ends post at one instant is read round-robin: one message of each flow, in the order of the flows, then
//   the next one of each. NCCL's progress thread posts in the same way. So it does not matter in which order processes
//   post.
// - The steps of an instant come before what is posted at it: the ends act when they have seen these steps.
// - A flow that has made its steps up to now makes the next one later than now: what is to be done by now was done.
// - Time never runs backward.
//
// Who drives the loop sees flows, times and what happened. Only ddlemu_sim_step makes the steps of a flow.
#ifndef DDLEMU_SIM_H
#define DDLEMU_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../link/engine.h"

// What happened to a flow, for its ends to see: a set of bits.
enum {
	DDLEMU_SIM_ARRIVED = 1, // bytes are at the receiver
	DDLEMU_SIM_DUE = 2, // a message is at the receiver
	DDLEMU_SIM_VISIBLE = 4, // a message is at the receiver, and its receive is posted
	DDLEMU_SIM_COMPLETE = 8, // a send is complete for the sender
	DDLEMU_SIM_BROKEN = 16, // the flow makes no more steps
	DDLEMU_SIM_TIMER = 32, // the timer of an end, which its driver has set
};

// What the loop knows of a flow.
struct ddlemu_sim_flow {
	uint64_t order; // of the flows in a round
	uint64_t arrived_seen; // stream offset
	uint64_t due_seen, visible_seen, complete_seen; // messages
	int64_t timer; // when an end acts by itself; 0: never
	uint32_t place; // 1 + its place in the heap; 0: it has no next step
	uint32_t happened; // what its driver has not read yet; that of the virtual clock reads it at once
};

// The next step of a flow.
struct ddlemu_sim_next {
	int64_t time; // when the flow or one of its ends has something to do
	uint64_t tie; // at equal times the smaller one is first, then the flow with the lower number
	uint32_t flow, unused;
};

// A flow with posts that are not read yet.
struct ddlemu_sim_posted {
	uint64_t order;
	uint32_t flow, unused;
};

struct ddlemu_sim;

// What the driver does.
struct ddlemu_sim_driver {
	// Makes the steps of a flow up to s->now, with at most one more of its posts if posts are read round-robin.
	// NULL: the flow makes no steps any more.
	struct ddlemu_flow *(*advance)(struct ddlemu_sim *s, uint32_t flow);
	// Takes note of what happened to a flow. Returns true if an end has something to see: time stops for it.
	bool (*note)(struct ddlemu_sim *s, uint32_t flow, uint32_t happened);
	// Says whether the driver must empty its memory before the steps of a flow. May be NULL.
	bool (*is_full)(const struct ddlemu_sim *s, uint32_t flow);
};

struct ddlemu_sim {
	int64_t now; // ns
	struct ddlemu_sim_flow *flows; // the first one
	size_t stride; // bytes from one to the next
	struct ddlemu_sim_next *heap; // a place for each flow: that with the earliest next step is first
	uint32_t *heap_size;
	struct ddlemu_sim_posted *posted; // a place for each flow
	uint32_t posted_count;
	uint32_t round_at, round_left; // where the reading of posts was interrupted
	bool reading;
	bool seen; // an end has something to see
	bool stops_at_each; // time stops after each flow whose end has something to see, not behind its instant
	bool draws_ties; // the order at equal times is drawn for each flow and time
	uint64_t seed; // of these draws
	uint64_t steps; // calls of advance
	uint64_t pause_at; // number of steps after which a run pauses; 0: it does not
	const struct ddlemu_sim_driver *driver;
};

enum ddlemu_sim_stop {
	DDLEMU_SIM_SEEN, // an end has something to see
	DDLEMU_SIM_REACHED, // no step is left up to the given time
	DDLEMU_SIM_PAUSED, // s->pause_at steps were made, and no end has anything to see yet
	DDLEMU_SIM_FULL, // the driver must empty its memory, then call again
	DDLEMU_SIM_BACKWARD, // the first step of the heap is earlier than now: the memory is corrupt
};

// Reads what was posted now, then makes the steps up to the first instant at which an end has something to see, but
// none later than `until`. s->now is then the time of the last step. The steps of an instant must be made before
// something is posted at it.
enum ddlemu_sim_stop ddlemu_sim_run(struct ddlemu_sim *s, int64_t until);
// Makes the steps of one flow up to now and reads its posts. Returns true if there are others.
bool ddlemu_sim_step(struct ddlemu_sim *s, uint32_t flow);
// Puts a flow where its next step belongs. DDLEMU_NEVER: it has none.
void ddlemu_sim_schedule(struct ddlemu_sim *s, uint32_t flow, int64_t time);

static inline struct ddlemu_sim_flow *sim_flow(const struct ddlemu_sim *s, uint32_t i)
{
	return (struct ddlemu_sim_flow *)((char *)s->flows + i * s->stride);
}

// sim_posted says that something was posted to a flow. Each flow is added once.
static inline void sim_posted(struct ddlemu_sim *s, uint32_t i)
{
	s->posted[s->posted_count++] = (struct ddlemu_sim_posted){ .order = sim_flow(s, i)->order, .flow = i };
}

// The order of a flow: by job, sender, distance to the receiver and how many flows that had listened for before. The
// distance counts up from the sender, and on from rank 0: so NCCL's rounds of sends and receives serve the peers. By
// the receiver's rank, all senders of an all-to-all would serve rank 0 first, then rank 1, and wait for each other
// there.
static inline uint64_t flow_order(uint64_t job, uint64_t sender, uint64_t receiver, uint64_t number)
{
	return job << 56 | (sender & 0x7ffff) << 37 | ((receiver - sender) & 0x7ffff) << 18 | (number & 0x3ffff);
}
static inline uint64_t job_and_ranks(uint64_t order) { return order >> 18; }
static inline uint32_t sender_of(uint64_t order) { return (uint32_t)(order >> 37) & 0x7ffff; }
static inline uint32_t receiver_of(uint64_t order) { return (sender_of(order) + (uint32_t)(order >> 18)) & 0x7ffff; }

#endif
