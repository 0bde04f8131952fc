// SPDX-License-Identifier: Apache-2.0
// How streams and the application's threads take part in the virtual clock of a fabric.
#pragma once

#include <condition_variable>
#include <mutex>

#include "../exec/clock.h"

extern "C" {

// ddlemuSoftSetClock is called by the net plugin when it joins a fabric with a virtual clock. From then on time is the
// clock's, and this process's threads take part in it. Returns 0, or -1 for calls of another version or if there is a
// clock already.
int ddlemuSoftSetClock(const struct ddlemu_clock_calls *calls);

// ddlemuSoftClock returns the calls, or null.
const struct ddlemu_clock_calls *ddlemuSoftClock(void);

// ddlemuSoftEnter makes an actor for a thread that is about to start. Only with a clock.
struct ddlemu_actor *ddlemuSoftEnter(const char *name);

// ddlemuSoftExact says that the calling thread is the only one of the application that calls CUDA and NCCL. Its waits
// are then exact: the clock moves only while it waits. Returns -1 if another thread has said so.
int ddlemuSoftExact(void);

// ddlemuSoftHasExact returns 1 if a thread has called ddlemuSoftExact, else 0.
int ddlemuSoftHasExact(void);

// ddlemuSoftApplication returns the actor of the application if the calling thread is the exact one and there is a
// clock, else null.
struct ddlemu_actor *ddlemuSoftApplication(void);

// ddlemuSoftNow returns the time in ns: the virtual clock's, or CLOCK_MONOTONIC.
int64_t ddlemuSoftNow(void);

// ddlemuSoftSettle waits until nothing is left to happen on any rank. All ranks that wait for this go on at the same
// virtual time. Returns -1 without a clock, or if the calling thread is not the exact one.
int ddlemuSoftSettle(void);

} // extern "C"

namespace soft {

// wait_until waits with the lock until done() is true. Whoever changes that notifies cv and raises DDLEMU_SIGNALS, in
// this order or the other. With a virtual clock the actor, if not null, is idle meanwhile. actor() is asked each time,
// because the clock may be set while a thread waits.
template <class Actor, class Done>
void wait_until(std::unique_lock<std::mutex> &lock, std::condition_variable &cv, Actor actor, Done done)
{
	for (;;) {
		const ddlemu_clock_calls *clock = softexec::virtual_clock();
		ddlemu_actor *a = clock ? actor() : nullptr;
		// The number is read before the look: a change after that does not let the actor sleep.
		const uint32_t seen = a ? clock->read(DDLEMU_SIGNALS) : 0;
		if (done())
			return;
		if (!a) {
			cv.wait(lock);
			continue;
		}
		lock.unlock();
		clock->idle(a, DDLEMU_SIGNALS, seen);
		lock.lock();
	}
}

} // namespace soft
