// SPDX-License-Identifier: Apache-2.0
//
// The virtual clock of a fabric: memory that all processes of a job map, and what they do with it.
//
// The time stands still while any actor of any rank works (calls.h says what an actor is). When the last one becomes
// idle, its thread runs the clock: it lets the link model make its steps in the order of their times, up to the first
// one that an end of a connection must see. Then it sets the time and wakes the nodes concerned. Nobody else does
// anything meanwhile, so the result does not depend on the host.
//
// On a real clock there is none of this but the direct flows, if nodes cost time: then the ends make their steps.
//
//	clock.h      the memory, and the functions
//	actor.c      actors, participants
//	number.c     the numbers of the nodes, sleeping
//	scheduler.c  which participant runs the clock, and when
//	flows.c      the flows, moved by the event loop (sim.h)
//	direct.c     the flows between GPUs of a node
//	deadlock.c   which rank waits for which when nothing is left to happen
//	memory.c     where things are
//	process.c    this process's part, for calls.h
#ifndef DDLEMU_CLOCK_H
#define DDLEMU_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../sim/sim.h"
#include "calls.h"

#define DDLEMU_CLOCK_ACTORS 254 // of one rank
#define DDLEMU_CLOCK_START 1000000000 // ns: the virtual time of a new fabric; times of 0 mean "not yet" elsewhere
#define DDLEMU_CLOCK_SLEEP 100000000 // ns of real time: the longest sleep of an actor
#define DDLEMU_CLOCK_PATIENCE 1000000000 // ns of real time before a deadlock is taken as one

// An actor. Its state is 0 while it works, else DDLEMU_IDLE | number << 32 | value: idle as long as this number has
// this value, and until this time.
#define DDLEMU_IDLE (1ull << 63)
struct ddlemu_actor {
	_Alignas(64) uint64_t state;
	int64_t until; // virtual time: it also works then; DDLEMU_NEVER: it does not
	uint32_t used; // 0: a free place
	uint32_t application; // one of the application's threads
	uint32_t thread; // for display
	char name[16];
};

// One rank. Actor 0 stands for the application.
struct ddlemu_participant {
	_Alignas(64) uint32_t on; // the rank takes part
	uint32_t node;
	uint32_t actors; // places in use, or used before
	uint32_t unused;
	struct ddlemu_actor actor[DDLEMU_CLOCK_ACTORS];
};

// A number that threads wait for, and how many sleep until it changes.
struct ddlemu_number {
	_Alignas(64) uint32_t value;
	uint32_t sleepers;
};

struct ddlemu_clock_node {
	struct ddlemu_number number[DDLEMU_NODE_NUMBERS];
};

struct ddlemu_clock {
	_Alignas(64) int64_t now; // ns
	_Alignas(64) uint32_t token; // 1 + the participant that runs the clock; 0: nobody does
	uint32_t interrupted; // a participant died while it ran the clock, and nobody has put it in order yet
	uint32_t stepping; // 1 + the flow whose steps are being made; 0: none
	uint32_t nodes, participants; // places
	struct ddlemu_number settled; // changes when nothing is left to happen
	struct ddlemu_number handovers;
	_Alignas(64) uint64_t rounds; // times that the clock ran
	uint64_t steps; // of flows
	uint64_t repairs; // times that it was put in order after a death
	uint64_t stuck; // rounds in which nothing was left to happen, and nobody waited for that
	int64_t stuck_since; // CLOCK_MONOTONIC: since then nothing has happened, and nobody has worked
	uint64_t stuck_states; // of all actors, at that time: a hash
	uint32_t deadlocked;
	uint32_t planned_made; // planned changes that are in force, or were
};

// One flow, with what the scheduler knows of it.
struct ddlemu_clock_flow {
	_Alignas(128) uint32_t posted; // it is in the list of flows with posts
	uint32_t next_posted; // 1 + the next one in the list
	uint32_t sender_node, receiver_node;
	uint32_t sender_waits, receiver_waits; // an end waits for space: what makes space must raise its node's events
	// Of a direct flow: 1 + the participants at its ends. The receiver is 0 until it looks for the first time.
	uint32_t direct; // 1: between GPUs of a node
	uint32_t sender, receiver;
	uint32_t closed; // on a real clock: which of the ends are, as bits of enum ddlemu_end
	struct ddlemu_sim_flow sim; // its order is flow_order
	struct ddlemu_flow flow;
};

#define DDLEMU_CLOCK_FLOWS 16384 // at most, in one fabric

// What the place of a flow is. The memory of one that is taken may not be reserved yet.
enum ddlemu_flow_place { DDLEMU_FLOW_FREE, DDLEMU_FLOW_TAKEN, DDLEMU_FLOW_MADE };

// The flows of a fabric, in a file of their own. A new file is all zeros. Its memory is reserved up to `flow`, and for
// each flow when it is made: most are never touched.
struct ddlemu_clock_flows {
	uint32_t heap_size;
	uint32_t directs; // direct flows made so far, with numbers from 1
	_Alignas(64) uint32_t first_posted; // 1 + the first flow of the list
	_Alignas(64) uint32_t in_use[DDLEMU_CLOCK_FLOWS]; // enum ddlemu_flow_place
	struct ddlemu_sim_entry heap[DDLEMU_CLOCK_FLOWS + 2]; // flows, the next timer, the next change
	_Alignas(4096) struct ddlemu_clock_flow flow[];
};

// A process's view of the clock.
struct ddlemu_clock_view {
	struct ddlemu_clock *clock; // NULL: the clock is real, and the view is for direct flows only
	struct ddlemu_clock_node *nodes;
	struct ddlemu_participant *participants;
	struct ddlemu_clock_flows *flows;
	struct ddlemu_engine engine; // of any flow: flow and path are set for each step
	uint32_t hops, blocks; // of the fabric
	struct ddlemu_block *block; // the first one
	const struct ddlemu_planned_change *planned; // in the order of their times
	uint32_t planned_count;
	uint32_t participant, node; // this rank's
	uint32_t job, rank, ranks; // of the job with this number: this rank, and how many there are
	int flows_file; // in which the memory of a flow is reserved
	// The fabric's file. As long as a participant lives, its process has a record lock there, at lock_at +
	// participant * lock_step. lock_step is 0 if nobody has one.
	int fabric_file;
	int64_t lock_at, lock_step;
	const struct ddlemu_node_time *node_time; // NULL: nodes cost nothing
	struct ddlemu_transport direct; // of flows within a node
	bool waits_on_deadlock; // a deadlock is no error: somebody may yet end it
	uint64_t *reasons; // why the job of this process is INVALID: a set of bits
	uint64_t not_waited_for; // the bit for: the clock went on while a thread of this process worked
};

// --- sizes and places

// The bytes of the clock of a fabric of so many nodes and participants.
size_t ddlemu_clock_size(uint32_t nodes, uint32_t participants);
// Makes a clock in memory of zeros.
void ddlemu_clock_init(void *memory, uint32_t nodes, uint32_t participants);
// Removes what participants that died have left, and sets the time to `now` unless it is later. Only while nobody takes
// part. clock is NULL if it is real.
void ddlemu_clock_reset(void *clock, void *flows, int64_t now);
// Says where things are in the memory. The caller sets the other fields of the view.
void ddlemu_clock_place(struct ddlemu_clock_view *, void *clock, void *flows);

static inline uint32_t clock_flow_number(const struct ddlemu_clock_flows *f, const struct ddlemu_clock_flow *x)
{
	return (uint32_t)(x - f->flow);
}

static inline bool clock_flow_is_made(const struct ddlemu_clock_flows *f, uint32_t i)
{
	return __atomic_load_n(&f->in_use[i], __ATOMIC_ACQUIRE) == DDLEMU_FLOW_MADE;
}

// Finds a free place for a flow and takes it; NULL if all are in use. It does not touch the flow, whose memory may not
// be reserved yet.
static inline struct ddlemu_clock_flow *clock_take_place(struct ddlemu_clock_flows *f)
{
	for (uint32_t i = 0; i < DDLEMU_CLOCK_FLOWS; i++) {
		uint32_t free = DDLEMU_FLOW_FREE;
		if (__atomic_load_n(&f->in_use[i], __ATOMIC_RELAXED) == DDLEMU_FLOW_FREE &&
			__atomic_compare_exchange_n(
				&f->in_use[i], &free, DDLEMU_FLOW_TAKEN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return &f->flow[i];
	}
	return NULL;
}

// Removes what an earlier connection left. The entries of the tables are written before they are read.
static inline void clock_clear_flow(struct ddlemu_clock_flow *x)
{
	memset(x, 0, offsetof(struct ddlemu_clock_flow, flow.sends));
}

static inline void clock_set_place(
	struct ddlemu_clock_flows *f, struct ddlemu_clock_flow *x, enum ddlemu_flow_place place)
{
	__atomic_store_n(&f->in_use[clock_flow_number(f, x)], place, __ATOMIC_RELEASE);
}

// --- participants and actors

// The participant takes part from now on, with an application that works.
void ddlemu_participant_join(struct ddlemu_clock_view *, uint32_t node);
// The participant has left: the clock does not wait for it any more.
void ddlemu_participant_left(void *clock, uint32_t participant);
// The participant's process has died. If it died while it ran the clock, whoever runs it next puts it in order, and the
// flow whose steps it was making is broken.
void ddlemu_participant_died(void *clock, uint32_t participant);

struct ddlemu_actor *ddlemu_actor_enter(struct ddlemu_clock_view *, const char *name, bool application);
void ddlemu_actor_leave(struct ddlemu_clock_view *, struct ddlemu_actor *);
// The actor is idle as long as the number has the value seen, at most until virtual time t, and sleeps meanwhile: at
// most DDLEMU_CLOCK_SLEEP. It works again when this returns.
void ddlemu_actor_idle(
	struct ddlemu_clock_view *, struct ddlemu_actor *, enum ddlemu_clock_number, uint32_t seen, int64_t t);
void ddlemu_actor_settle(struct ddlemu_clock_view *, struct ddlemu_actor *);
void ddlemu_actor_sleep_until(struct ddlemu_clock_view *, struct ddlemu_actor *, int64_t t);
// Says for the actor of another thread that it is idle.
void ddlemu_actor_set_idle(struct ddlemu_clock_view *, struct ddlemu_actor *, enum ddlemu_clock_number, uint32_t seen);
// The actor that stands for the application of this rank.
static inline struct ddlemu_actor *ddlemu_actor_application(struct ddlemu_clock_view *v)
{
	return &v->participants[v->participant].actor[0];
}

static inline uint32_t number_read(const struct ddlemu_number *n)
{
	return __atomic_load_n(&n->value, __ATOMIC_SEQ_CST);
}

// One more number that a state may name: idle until nothing is left to happen.
#define DDLEMU_SETTLE DDLEMU_CLOCK_NUMBERS

// A number by its value in a state.
static inline struct ddlemu_number *number_of(struct ddlemu_clock_view *v, uint32_t node, uint32_t number)
{
	if (number < DDLEMU_NODE_NUMBERS)
		return &v->nodes[node].number[number];
	return number == DDLEMU_HANDOVERS ? &v->clock->handovers : &v->clock->settled;
}

// Sleeps as long as the number has the value seen, at most ns of real time.
void ddlemu_number_sleep(struct ddlemu_number *, uint32_t seen, int64_t ns);
// Raises a number, after an effect, and wakes the actors that sleep until it changes.
void ddlemu_number_raise(struct ddlemu_number *);
// Raises a number of a node, and wakes the actors that sleep until it changes.
void ddlemu_node_raise(struct ddlemu_clock_view *, uint32_t node, enum ddlemu_clock_number);

static inline int64_t clock_read(const struct ddlemu_clock *c) { return __atomic_load_n(&c->now, __ATOMIC_ACQUIRE); }

static inline uint32_t planned_made(const struct ddlemu_clock *c)
{
	return __atomic_load_n(&c->planned_made, __ATOMIC_ACQUIRE);
}

// --- the scheduler

// Runs the clock if every actor is idle and nobody runs it yet.
void ddlemu_clock_run(struct ddlemu_clock_view *);

// What a run of the event loop came to.
struct ddlemu_clock_result {
	bool woke; // nodes, because ends have something to see
	bool timer; // the timer is due
};

// Runs the event loop up to the first instant at which an end must see something or the timer is due, sets the time and
// raises the events of the nodes concerned. timer: DDLEMU_NEVER if there is none. Only for whoever has the token.
struct ddlemu_clock_result ddlemu_flows_run(struct ddlemu_clock_view *, int64_t timer);

// Says on stderr which rank waits for which.
void ddlemu_report_deadlock(struct ddlemu_clock_view *);

// --- flows

// Says that an end of the flow has posted something, or has closed.
void ddlemu_flow_posted(struct ddlemu_clock_view *, struct ddlemu_clock_flow *);

// Says whether a flow's path is one of the fabric: the memory is shared, and its numbers select what the engine writes.
bool ddlemu_has_path(const struct ddlemu_clock_view *, const struct ddlemu_path *);

// --- direct flows, for calls.h

// The transport of direct flows in a fabric with a transport, as in transport.go of package link.
static inline struct ddlemu_transport clock_direct_transport(const struct ddlemu_transport *t)
{
	return (struct ddlemu_transport){
		.kind = DDLEMU_RDMA, .second = t->second, .rto = t->rto, .down_timeout = t->down_timeout
	};
}

uint64_t ddlemu_direct_make(struct ddlemu_clock_view *, const struct ddlemu_direct_ends *);
// now is the time of the clock in ns.
bool ddlemu_direct_post(struct ddlemu_clock_view *, uint64_t flow, uint64_t bytes, int64_t now, int64_t written);
uint64_t ddlemu_direct_arrived(struct ddlemu_clock_view *, uint64_t flow, uint64_t at_least, int64_t now);
// What the model says of a message that has arrived; false if the flow is gone.
struct ddlemu_direct_times {
	uint64_t size; // bytes of the links
	int64_t posted, due, distortion;
};
bool ddlemu_direct_times_of(
	struct ddlemu_clock_view *, uint64_t flow, uint64_t message, struct ddlemu_direct_times *times);
// Closes the ends of direct flows that a participant has: it leaves, or one that had its place before has died. A flow
// whose ends are both closed is freed.
void ddlemu_direct_close(struct ddlemu_clock_view *, uint32_t participant);

// --- this process

struct ddlemu_clock_settings {
	double compute; // see calls.h
	int64_t compute_hold; // ns, see calls.h
	bool waits_on_deadlock; // as in the view
};

// The calls of this process, once it has joined; NULL before.
const struct ddlemu_clock_calls *ddlemu_clock_calls(struct ddlemu_clock_settings);
// Joins: from now on this process's calls use this view, which it keeps. Once per process.
struct ddlemu_clock_view *ddlemu_clock_join(const struct ddlemu_clock_view *);
// Leaves: the clock does not wait for this process any more.
void ddlemu_clock_leave(struct ddlemu_clock_view *);

#endif
