// SPDX-License-Identifier: Apache-2.0
//
// The event loop. Everything that happens in virtual time is an entry of one queue: steps of flows, timers of drivers,
// planned changes of hops, and posts. The virtual clock runs the loop on the flows of a fabric that is up, `expect`,
// `verify` and others on flows in private memory (loop.go, private.c). Its rules are:
//
// - Time advances here, in advance_time, and nowhere else. It never runs backward.
// - Entries are taken in the order of (time, class, tie, number). The classes of one instant are, in this order:
//     1. changes of hops: what happens at their time happens with the new parameters;
//     2. steps of flows;
//     3. timers: an end that sets one acts when it has seen the steps of that instant;
//     4. posts: the ends have posted when they have seen the steps, and after their timers.
//   In the order of a real clock (stops_at_each) timers come before steps: an end acts as soon as it can, whatever else
//   happens at that instant.
// - Where two orders are allowed there is a choice point (enum ddlemu_sim_point): choose draws from the seed, the point
//   and the occurrence, or without draws it takes the fixed order. The loop draws an order nowhere else.
// - What the ends post at one instant is read round-robin: one message of each flow, in the order of the flows or a
//   drawn one, then the next one of each. NCCL's progress thread posts in the same way. So it does not matter in which
//   order processes post. Posts are read when the driver calls again: until then others post at this instant.
// - A flow that has made its steps up to now makes its next step at least 1 ns later, because all steps due now have
//   been made.
// - Changes alone do not keep the loop going: nothing is left that they could change.
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
};

// The kinds of entries. At equal times a smaller one comes first.
enum ddlemu_sim_class {
	DDLEMU_SIM_CHANGE, // of the parameters of a hop
	DDLEMU_SIM_EARLY_TIMER, // of a driver, in the order of a real clock
	DDLEMU_SIM_STEP, // of a flow
	DDLEMU_SIM_TIMER, // of a driver
	DDLEMU_SIM_POST, // of a flow: something to read
};

// The choice points: what comes first of several that may at one instant.
enum ddlemu_sim_point {
	DDLEMU_SIM_STEPS, // of flows; an occurrence is a time
	DDLEMU_SIM_POSTS, // of flows; an occurrence is a time and a round
	DDLEMU_SIM_CHANNELS, // of a kernel that begins; an occurrence is a kernel of a rank, and those that began
			     // before
};

// What the loop knows of a flow.
struct ddlemu_sim_flow {
	uint64_t order; // of the flows in a round
	uint64_t arrived_seen; // stream offset
	uint64_t due_seen, visible_seen, complete_seen; // messages
	uint32_t place; // 1 + the place of its entry, a step or a post; 0: it has none
	uint32_t happened; // what its driver has not read yet; the virtual clock's driver reads it at once
	uint32_t posted, unused; // 1: its entry is a post, and its next step is known when that was read
};

// An entry of the queue.
struct ddlemu_sim_entry {
	int64_t time;
	uint64_t tie; // of a step: its choice; of a post: the round in which it is read
	uint64_t number; // of a step: the flow; of a post: its choice
	uint32_t class; // enum ddlemu_sim_class
	uint32_t index; // of the flow, of the change, or what the driver knows its timer by
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
	struct ddlemu_sim_entry *heap; // a place for each flow, and for what the driver adds
	uint32_t *heap_size;
	uint32_t posts, changes; // entries of these classes
	uint32_t place[DDLEMU_SIM_POST + 1]; // 1 + the place of the entry of a class that has only one
	uint32_t changed; // the index of the change, if the loop has stopped for one
	bool seen; // an end has something to see, or a timer is due
	bool stops_at_each; // time stops after each flow whose end has something to see, not behind its instant
	bool draws_ties; // choice points are drawn
	uint64_t seed, channels_seed; // of these draws; channels_seed of the next one of DDLEMU_SIM_CHANNELS
	uint64_t steps; // calls of advance
	uint64_t pause_at; // number of steps, less the timers, after which a run pauses; 0: it does not
	const struct ddlemu_sim_driver *driver;
};

enum ddlemu_sim_stop {
	DDLEMU_SIM_SEEN, // an end has something to see, or a timer is due: the driver takes it
	DDLEMU_SIM_REACHED, // no step is left up to the given time
	DDLEMU_SIM_PAUSED, // s->pause_at steps were made, and no end has anything to see yet
	DDLEMU_SIM_FULL, // the driver must empty its memory, then call again
	DDLEMU_SIM_CHANGED, // s->changed is in force from now on: the driver changes the hop, then calls again
	DDLEMU_SIM_BACKWARD, // the first entry is earlier than now: the memory is corrupt
};

// Takes entries up to the first instant at which an end has something to see or a timer is due, but none later than
// `until`. s->now is then the time of the last one. What is posted before the next call is posted at that instant.
enum ddlemu_sim_stop ddlemu_sim_run(struct ddlemu_sim *s, int64_t until);
// Makes the steps of one flow up to now and reads its posts. Returns true if there are others.
bool ddlemu_sim_step(struct ddlemu_sim *s, uint32_t flow);
// Puts the step of a flow where it belongs. DDLEMU_NEVER: it has none.
void ddlemu_sim_schedule(struct ddlemu_sim *s, uint32_t flow, int64_t time);
// Adds an entry of another class, now or later.
void ddlemu_sim_add(struct ddlemu_sim *s, struct ddlemu_sim_entry);
// Says that something was posted to a flow now.
void ddlemu_sim_posted(struct ddlemu_sim *s, uint32_t flow);
// Takes the first timer that is due, and returns its index; DDLEMU_SIM_NONE: there is none.
uint32_t ddlemu_sim_take_timer(struct ddlemu_sim *s);
// Says which of the channels of a rank's kernel begins first. The others follow in turn, and after the last one the
// first one.
uint32_t ddlemu_sim_first_channel(struct ddlemu_sim *s, uint32_t rank, uint64_t kernel, uint32_t channels);
// Removes the entry of a class that has at most one.
void ddlemu_sim_remove(struct ddlemu_sim *s, enum ddlemu_sim_class);

// Removes the first entry. Returns its flow; DDLEMU_SIM_NONE: it is of none.
uint32_t ddlemu_sim_drop_first(struct ddlemu_sim *s);

#define DDLEMU_SIM_NONE UINT32_MAX

static inline struct ddlemu_sim_flow *sim_flow(const struct ddlemu_sim *s, uint32_t i)
{
	return (struct ddlemu_sim_flow *)((char *)s->flows + i * s->stride);
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
