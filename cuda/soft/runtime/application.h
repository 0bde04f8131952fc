// SPDX-License-Identifier: Apache-2.0
// The application's threads in virtual time: those that call CUDA or NCCL, and are not NCCL's own.
//
// In a call that waits, such a thread is idle. Outside of our calls nobody tells what it does, so a sampler asks the
// kernel: a thread that runs works, one that sleeps is idle (sampler.h). A program that has one such thread, which
// never sleeps outside of our calls, says so (ddlemuSoftExact), and then there is no sampler.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "../exec/clock.h"

namespace soft {

// application_actor returns the actor of the calling thread, which works from now on. A thread of the application gets
// one at its first call. Null without a clock, and for a thread that does not take part.
ddlemu_actor *application_actor();

// application_idle waits, as the calling thread, until the number is no longer `seen`. begins: it is the first wait
// since the thread has been outside of our calls.
void application_idle(ddlemu_actor *actor, ddlemu_clock_number number, uint32_t seen, bool begins);

// HelperWait is a wait of a thread that has called ddlemuSoftHelper. The thread has an actor as long as this lives. For
// other threads it does nothing.
class HelperWait {
public:
	HelperWait();
	~HelperWait();
	HelperWait(const HelperWait &) = delete;
	HelperWait &operator=(const HelperWait &) = delete;
	ddlemu_actor *actor() const { return actor_; }

private:
	ddlemu_actor *actor_ = nullptr;
};

// application_charge makes the CPU time that the calling thread has used since it was charged last take virtual time,
// if that was asked for (ddlemu_clock_calls.compute). Its CPU time in calls that wait is not charged. It is called
// before the thread waits, and before it launches a kernel.
void application_charge();

// application_call makes the calling thread take the time of a call of NCCL, if nodes cost time. It is called before a
// kernel is launched.
void application_call();

// application_compute waits, as the calling thread, for ns of virtual time.
void application_compute(ddlemu_actor *actor, int64_t ns);

// application_polled is called after a question was answered with "not ready"; `seen` is SIGNALS, read before the
// question was looked at. If the thread's last question had the same answer and nothing has been signaled since, the
// thread polls: it waits until something is.
void application_polled(uint32_t seen);

// application_asked_socket is called when NCCL has asked a socket, as the calling thread. A thread that gets no answer
// for kSocketPolls times in a row waits for another process, as one that sleeps does. From then on each call waits for
// the socket for a while: the cores are for those that work.
void application_asked_socket(int fd, bool answered);

// application_yielded is called when the calling thread has given its core away outside of our calls. A thread that
// does so again and again, and calls nothing of ours meanwhile, polls for what another one does: an MPI, for example.
void application_yielded();

// forget_application forgets the clock and the threads, in a forked child: they are the parent's.
void forget_application();

// ApplicationThread is a thread that the sampler watches while it is outside of our calls.
struct ApplicationThread {
	ddlemu_actor *actor = nullptr;
	int id = 0; // the kernel's
	std::atomic<int> asks_socket{ -1 }; // it has asked this one many times in vain, and waits for it; -1: none
	// 1 + the value of HANDOVERS since which it has yielded again and again; 0: it has not.
	std::atomic<uint64_t> yields_since{ 0 };
	std::mutex mu; // of what follows
	bool waits = false; // in a call
	bool idle = false; // by the sampler
	uint64_t runs = 0; // how often it had run when the sampler looked last
	int64_t sleeps_since = 0; // real time in ns; 0: it ran when the sampler looked last
	int64_t outside_since = 0; // real time in ns
};

// for_each_application_thread calls f for every one of them. They do not end meanwhile.
void for_each_application_thread(const std::function<void(ApplicationThread &)> &f);

} // namespace soft
