// SPDX-License-Identifier: Apache-2.0
//
// The virtual clock of the fabric, if this process has joined one that has it (shaper/clock/calls.h).
#ifndef DDLEMU_SOFT_EXEC_CLOCK_H
#define DDLEMU_SOFT_EXEC_CLOCK_H

#include <atomic>
#include <cstdint>

#include "../../../shaper/clock/calls.h"

namespace softexec {

extern std::atomic<const ddlemu_clock_calls *> clock_table;

// Returns the calls of the virtual clock, or null: then time is CLOCK_MONOTONIC.
inline const ddlemu_clock_calls *virtual_clock() { return clock_table.load(std::memory_order_acquire); }

// Makes an actor for a thread that is about to start. Ends the process if there are too many. Only with a virtual
// clock.
ddlemu_actor *enter_actor(const char *name);

// Returns this thread's actor. The first call makes one; it leaves when the thread ends. Only with a virtual clock.
ddlemu_actor *thread_actor(const char *name);

// Makes this thread use an actor that another thread has made for it.
void adopt_actor(ddlemu_actor *actor);

// Raises a number of the node after an effect, if there is a virtual clock.
inline void raise_number(ddlemu_clock_number number)
{
	if (const ddlemu_clock_calls *c = virtual_clock())
		c->raise(number);
}

} // namespace softexec

#endif
