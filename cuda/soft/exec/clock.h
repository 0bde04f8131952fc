// SPDX-License-Identifier: Apache-2.0
//
// The virtual clock of the fabric, if this process has joined one that has it (shaper/engine/clock/calls.h), and what
// its nodes cost, on either clock.
#ifndef DDLEMU_SOFT_EXEC_CLOCK_H
#define DDLEMU_SOFT_EXEC_CLOCK_H

#include <atomic>
#include <cstdint>

#include "../../../shaper/engine/clock/calls.h"

namespace softexec {

extern std::atomic<const ddlemu_clock_calls *> clock_table;

// Returns the calls of the virtual clock, or null: then time is CLOCK_MONOTONIC.
inline const ddlemu_clock_calls *virtual_clock() { return clock_table.load(std::memory_order_acquire); }

extern std::atomic<const ddlemu_node_calls *> node_table;

// Returns the calls of a fabric whose nodes cost time, or null.
inline const ddlemu_node_calls *node_calls() { return node_table.load(std::memory_order_acquire); }

// Makes an actor for a thread that is about to start. application: it is one of the application's. Ends the process if
// there are too many. Only with a virtual clock.
ddlemu_actor *enter_actor(const char *name, bool application = false);

// Returns this thread's actor. The first call makes one; it leaves when the thread ends. Only with a virtual clock.
ddlemu_actor *thread_actor(const char *name, bool application = false);

// Returns this thread's actor if it has one, else null.
ddlemu_actor *own_actor();

// Makes this thread use an actor that another thread has made for it. It leaves when the thread ends.
void adopt_actor(ddlemu_actor *actor);

// Forgets the clock, in a forked child: it is the parent's.
void forget_clock();

// Returns true for the kernel's id of a thread that has an actor.
bool is_actor_thread(int thread);

// Waits, as the thread of the actor, until the number is no longer `seen`. Only with a virtual clock.
inline void virtual_idle(ddlemu_actor *actor, ddlemu_clock_number number, uint32_t seen)
{
	virtual_clock()->idle(actor, number, seen, INT64_MAX);
}

// Returns true if every rank waits and nothing is left to happen.
inline bool is_deadlocked()
{
	const ddlemu_clock_calls *c = virtual_clock();
	return c && c->deadlocked() != 0;
}

// Raises a number of the node after an effect, if there is a virtual clock.
inline void raise_number(ddlemu_clock_number number)
{
	if (const ddlemu_clock_calls *c = virtual_clock())
		c->raise(number);
}

// Waits, on a real clock, until the time t of node_calls. Returns the time then.
int64_t sleep_real_until(int64_t t);

} // namespace softexec

#endif
