// SPDX-License-Identifier: Apache-2.0
//
// How a process's threads take part in a virtual clock. The net plugin fills this table when it joins a fabric with a
// virtual clock, and hands it to the software CUDA (ddlemuSoftSetClock). The software CUDA and NCCL's threads then say
// what they do.
//
// An actor is a thread that can act: copy, post, launch. It works until it says that it is idle. The clock moves only
// while every actor of every rank is idle.
//
// Each emulated node has two numbers. Memory is shared only within a node, so they are enough for what passes ddlemu:
//
//	events    raised after an effect that a polling thread may see: a step of a connection, bytes, a flag
//	signals   raised after an effect that a waiting thread waits for: queued work, work that is done
//
// The fabric has one more:
//
//	handovers raised when a thread of an application begins to wait, when the thread of an actor ends, and after a
//	          function of cudaLaunchHostFunc: each may have woken other threads by means that ddlemu does not see: a
//	          condition variable, a pipe, a socket. Also when a thread that was an actor only while it waited works
//	          for another one again
//
// A thread reads the number, looks whether there is something to do, and if there is nothing, says that it is idle with
// the number that it has read. If the number has changed meanwhile, the thread does not sleep, and is not idle. Whoever
// has an effect raises the number after the effect is visible. So no effect is missed.
//
// What nodes cost, and the messages between the GPUs of a node, are a table of their own: on a real clock there is only
// that one (ddlemuSoftSetNode).
#ifndef DDLEMU_CLOCK_CALLS_H
#define DDLEMU_CLOCK_CALLS_H

#include <stdint.h>

#include "../node/node.h"

#define DDLEMU_CLOCK_CALLS_VERSION 10

enum ddlemu_clock_number {
	DDLEMU_EVENTS, // for threads that poll
	DDLEMU_SIGNALS, // for threads that wait
	DDLEMU_NODE_NUMBERS,
	DDLEMU_HANDOVERS = DDLEMU_NODE_NUMBERS, // of the fabric
	DDLEMU_CLOCK_NUMBERS,
};

struct ddlemu_actor;

// What an NVSwitch does with the messages of a direct flow, see plan.Multicast.
enum ddlemu_direct_kind {
	DDLEMU_DIRECT_UNICAST, // nothing
	DDLEMU_DIRECT_REDUCES, // it adds those of all ranks of the node: they leave the sender
	DDLEMU_DIRECT_BROADCAST, // all ranks of the node get the sender's: they reach the receiver
};

// The ends of a direct flow: a connection between two GPUs of a node.
struct ddlemu_direct_ends {
	uint32_t src, dst; // ranks of the job
	enum ddlemu_direct_kind kind;
	uint32_t channel; // of NCCL, below 64
	uint32_t p2p; // 1: for sends and receives
	uint32_t comm; // number of the communicator among those that the sender's process has made
};

// What a flow is whose messages do not arrive any more: its memory is corrupt or, on a virtual clock, a rank died while
// it made its steps.
#define DDLEMU_DIRECT_BROKEN UINT64_MAX

// What a node does that takes time.
enum ddlemu_node_part {
	DDLEMU_LAUNCHES, // a call of the host's thread, and a channel of a kernel until it begins
	DDLEMU_ACTIONS, // of kernels
	DDLEMU_NODE_MESSAGES, // between the GPUs of the node
	DDLEMU_NODE_PARTS,
};

// Something that a node did on a real clock. Times are by ddlemu_node_calls.now.
struct ddlemu_played {
	enum ddlemu_node_part part;
	uint64_t bytes;
	int64_t begun; // when this host saw that it could begin
	int64_t unseen; // ns before that, in which nobody looked whether it could
	int64_t due; // when it ends in the model
	int64_t ended; // when it did
};

// What the nodes of a fabric cost, for the executor of the software CUDA.
struct ddlemu_node_calls {
	uint32_t version; // DDLEMU_CLOCK_CALLS_VERSION
	uint32_t rank, ranks; // this process's rank in the job, and how many ranks the job has
	const struct ddlemu_node_time *time; // in ns of the clock
	// The time in ns: the virtual clock's, or CLOCK_MONOTONIC.
	int64_t (*now)(void);
	// Makes a direct flow, as its sender, and returns its name, which both ends use; 0: there is no place for one
	// more. A name is never used again.
	uint64_t (*direct_make)(const struct ddlemu_direct_ends *ends);
	// Sends a message that occupies so many bytes of the links, from now on; a kernel writes it until a time.
	// Returns 0 if the flow is gone, full or broken.
	int (*direct_post)(uint64_t flow, uint64_t bytes, int64_t written);
	// Of the messages of a flow, at least so many have arrived by now: returns how many have, or
	// DDLEMU_DIRECT_BROKEN. For its receiver.
	uint64_t (*direct_arrived)(uint64_t flow, uint64_t at_least);
	// On a real clock, else NULL: counts for the verdict how late this host was.
	void (*played)(const struct ddlemu_played *what);
	// The same of a message that has arrived. wanted: when its receiver has looked for it for the first time.
	void (*direct_received)(uint64_t flow, uint64_t message, int64_t wanted);
};

struct ddlemu_clock_calls {
	uint32_t version; // DDLEMU_CLOCK_CALLS_VERSION
	// The virtual time that a thread of the application takes per CPU time; 0: what it computes takes none.
	double compute;
	// ns of real time: the clock does not wait longer for a thread that runs outside of calls of CUDA and NCCL.
	int64_t compute_hold;
	const struct ddlemu_node_calls *node; // NULL: nodes cost nothing
	// The virtual time in ns. It does not move while the calling thread is an actor that works.
	int64_t (*now)(void);
	// Makes a thread an actor that works. name is for display, at most 15 bytes are kept. application: it is one of
	// the application's threads. NULL: too many actors.
	struct ddlemu_actor *(*enter)(const char *name, int application);
	// The actor's thread ends.
	void (*leave)(struct ddlemu_actor *actor);
	// The actor that stands for the application. It works, except while the application waits in a call.
	struct ddlemu_actor *(*application)(void);
	// The present value of a number of this node or of the fabric.
	uint32_t (*read)(enum ddlemu_clock_number number);
	// Raises a number, after an effect. DDLEMU_SIGNALS raises both: an actor that polls may also see what was
	// signaled.
	void (*raise)(enum ddlemu_clock_number number);
	// The actor is idle as long as the number has the value `seen`, and before the virtual time `until` in ns,
	// which must be later than now (INT64_MAX: without limit). It sleeps meanwhile: at most 100 ms of real time. It
	// works again when this returns.
	void (*idle)(struct ddlemu_actor *actor, enum ddlemu_clock_number number, uint32_t seen, int64_t until);
	// The actor is idle until the virtual time t in ns.
	void (*sleep_until)(struct ddlemu_actor *actor, int64_t t);
	// Says for another thread, which sleeps, that its actor is idle as long as the number has the value `seen`.
	void (*set_idle)(struct ddlemu_actor *actor, enum ddlemu_clock_number number, uint32_t seen);
	// Says for another thread that its actor works.
	void (*work)(struct ddlemu_actor *actor);
	// Sleeps as long as the number has the value `seen`, at most ns of real time. It is not about an actor.
	void (*sleep)(enum ddlemu_clock_number number, uint32_t seen, int64_t ns);
	// Says that the clock goes on although a thread of this process works: times are not exact any more. Returns 0
	// if the clock does not wait for this process anyway, because it has left. Else 1.
	int (*give_up)(void);
	// Returns 1 if every rank waits and nothing is left to happen: whoever waits is to fail. Else 0.
	int (*deadlocked)(void);
	// The actor is idle until nothing is left to happen: every actor is idle, and no message is on its way. It
	// returns at the same virtual time on all ranks that wait for this.
	void (*settle)(struct ddlemu_actor *actor);
};

#endif
