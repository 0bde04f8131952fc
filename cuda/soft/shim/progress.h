// SPDX-License-Identifier: Apache-2.0
// NCCL's progress thread on a virtual clock.
#pragma once

#include "../runtime/clock.h"

namespace shim {

// While it exists, the calling thread is a progress thread: an actor. It polls: a pass over all operations, then, if
// the pass did nothing, sched_yield.
class ProgressThread {
public:
	explicit ProgressThread(ddlemu_actor *actor);
	~ProgressThread();
	ProgressThread(const ProgressThread &) = delete;
	ProgressThread &operator=(const ProgressThread &) = delete;

	// yield ends a pass. If it did nothing, and no kernel can go on either, the thread is idle. The first fruitless
	// pass after a wait has no effect: NCCL 2.29 makes one whenever it wakes up, also if there are no operations,
	// and waits again. If that raised a number, the idle progress threads of several communicators would wake each
	// other for ever.
	void yield();
	// wait waits until there are operations again. The caller has given its mutex back.
	void wait(uint32_t seen);
	// end_polling is called before the number for wait is read.
	void end_polling();
	void did_something() { fruitful_ = true; }
	void locked() { has_locked_ = true; }

private:
	void begin_pass();

	ddlemu_actor *actor_;
	bool fruitful_ = false; // since the last yield
	bool has_locked_ = false; // the pool of posted operations, since the last yield
	bool has_woken_ = false; // from a wait, since the last yield
	bool polls_ = false; // it polls the kernels too, from its first pass to its next wait
	uint32_t seen_ = 0; // events of the node before this pass
};

// signaled tells whoever waits or polls what NCCL has signaled.
inline void signaled()
{
	if (const ddlemu_clock_calls *clock = ddlemuSoftClock())
		clock->raise(DDLEMU_SIGNALS);
}

} // namespace shim
