// SPDX-License-Identifier: Apache-2.0
// How streams, NCCL's threads and the application's threads take part in the virtual clock of a fabric.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "../exec/clock.h"
#include "../exec/cost.h"
#include "application.h"
#include "sampler.h"

extern "C" {

// ddlemuSoftSetClock is called by the net plugin when it joins a fabric with a virtual clock. From then on time is the
// clock's, and this process's threads take part in it. Returns 0, or -1 for calls of another version or if there is a
// clock already.
int ddlemuSoftSetClock(const struct ddlemu_clock_calls *calls);

// ddlemuSoftSetNode is called by the net plugin when it joins a fabric with a real clock whose nodes cost time. Returns
// 0, or -1 for calls of another version or if there are some already.
int ddlemuSoftSetNode(const struct ddlemu_node_calls *calls);

// ddlemuSoftClock returns the calls, or null.
const struct ddlemu_clock_calls *ddlemuSoftClock(void);

// ddlemuSoftNow returns the time in ns: the virtual clock's, or CLOCK_MONOTONIC.
int64_t ddlemuSoftNow(void);

// --- for a program that has one thread

// ddlemuSoftExact says that the calling thread is the only one of the application that calls CUDA and NCCL, and that it
// works whenever it is outside of such calls. Returns -1 if another thread has said so.
int ddlemuSoftExact(void);

// ddlemuSoftSettle waits until nothing is left to happen on any rank. All ranks that wait for this go on at the same
// virtual time. Returns -1 without a clock, or if the calling thread is not the exact one.
int ddlemuSoftSettle(void);

// --- for NCCL's threads

// ddlemuSoftEnter makes an actor for a thread that is about to start. Only with a clock.
struct ddlemu_actor *ddlemuSoftEnter(const char *name);

// ddlemuSoftAdopt makes the calling thread use that actor. It leaves when the thread ends.
void ddlemuSoftAdopt(struct ddlemu_actor *actor);

// ddlemuSoftJob is ddlemuSoftAdopt for a thread that may wait for other ranks by sockets: while it does, it is idle.
void ddlemuSoftJob(struct ddlemu_actor *actor);

// ddlemuSoftHelper says that the calling thread acts only on behalf of threads that wait for it meanwhile, and are
// taken as working. Only while it waits in a call that may need virtual time it has an actor: waits(actor) is called
// when that begins, and waits(NULL) when it ends, while the actor works.
void ddlemuSoftHelper(void (*waits)(struct ddlemu_actor *actor));

// ddlemuSoftBeginPolling, ddlemuSoftPoll, ddlemuSoftNext and ddlemuSoftEndPolling are softexec::begin_polling,
// poll_grids, next_of_grids and end_polling.
void ddlemuSoftBeginPolling(void);
int ddlemuSoftPoll(void);
int64_t ddlemuSoftNext(void);
void ddlemuSoftEndPolling(void);

// ddlemuSoftActor returns the actor of the calling thread, see soft::application_actor.
struct ddlemu_actor *ddlemuSoftActor(void);

// ddlemuSoftIdle and ddlemuSoftPolled are soft::application_idle and soft::application_polled.
void ddlemuSoftIdle(struct ddlemu_actor *actor, enum ddlemu_clock_number number, uint32_t seen);
void ddlemuSoftPolled(uint32_t seen);

// ddlemuSoftAskedSocket is soft::application_asked_socket.
void ddlemuSoftAskedSocket(int fd, int answered);

} // extern "C"

namespace soft {

// wait_until waits with the lock until done() is true. Whoever changes that notifies cv and raises DDLEMU_SIGNALS, in
// this order or the other. actor() returns this thread's actor, or null: it is asked each time, because the clock may
// be set while a thread waits. idle(actor, number, seen) waits with an actor. Returns false if the deadline, in ns of
// real_ns(), has passed. An actor looks at it every 100 ms, because it is idle for that long at most.
template <class Actor, class Idle, class Done>
bool wait_until(std::unique_lock<std::mutex> &lock, std::condition_variable &cv, Actor actor, Idle idle, Done done,
	int64_t deadline = softexec::kNoTime)
{
	// It waits once at least: on a virtual clock, a thread that asks again and again with a short limit is idle.
	for (bool waited = false;; waited = true) {
		const ddlemu_clock_calls *clock = softexec::virtual_clock();
		ddlemu_actor *a = clock ? actor() : nullptr;
		// The number is read before the look: a change after that does not let the actor sleep.
		const uint32_t seen = a ? clock->read(DDLEMU_SIGNALS) : 0;
		if (done())
			return true;
		const int64_t left = deadline == softexec::kNoTime ? softexec::kNoTime : deadline - real_ns();
		if (waited && left <= 0)
			return false;
		if (!a && left == softexec::kNoTime) {
			cv.wait(lock);
			continue;
		}
		if (!a) {
			cv.wait_for(lock, std::chrono::nanoseconds(left));
			continue;
		}
		lock.unlock();
		idle(a, DDLEMU_SIGNALS, seen);
		lock.lock();
	}
}

// application_wait is wait_until for a thread of the application, and for one of NCCL that acts on its behalf.
template <class Done>
bool application_wait(std::unique_lock<std::mutex> &lock, std::condition_variable &cv, Done done,
	int64_t deadline = softexec::kNoTime)
{
	if (done())
		return true;
	HelperWait helper;
	bool begins = true;
	auto idle = [&begins](ddlemu_actor *actor, ddlemu_clock_number number, uint32_t seen) {
		application_idle(actor, number, seen, begins);
		begins = false;
	};
	auto actor = [&helper] { return helper.actor() ? helper.actor() : application_actor(); };
	return wait_until(lock, cv, actor, idle, done, deadline);
}

// application_query asks whether something is done, for a thread of the application, see application_polled.
template <class Done>
bool application_query(Done done)
{
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	const uint32_t seen = clock ? clock->read(DDLEMU_SIGNALS) : 0;
	const bool is_done = done();
	if (clock && !is_done)
		application_polled(seen);
	return is_done;
}

} // namespace soft
