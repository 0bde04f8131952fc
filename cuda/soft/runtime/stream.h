// SPDX-License-Identifier: Apache-2.0
// Streams: queues of work. A queue runs its work in order; queues are independent of each other.
//
// A thread wake-up costs tens of microseconds. Three kinds of work avoid it where possible:
//   inline  short work, such as an event record or a small copy. It runs at once on the thread that finishes the work
//           before it, or on the thread that queues it if the stream is idle.
//   worker  kernels, big copies and host functions. They run on the stream's worker thread, which starts with the
//   first. wait    for a fence. No thread waits: the thread that signals the fence resumes the queue.
//
// Locking: Stream::mu_ before Fence::mu_. Work runs without a lock; while busy_ is set, no other thread runs work of
// the same queue.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace soft {

class Stream;

// A Fence is signaled once, when the work before it is done, and stores that time.
class Fence {
public:
	// signal resumes every queue that waits for this fence. now_ns is soft::now_ns().
	void signal(int64_t now_ns);
	bool is_signaled() const;
	// query is is_signaled() for a thread of the application, as Stream::query.
	bool query() const;
	void wait();
	// wait_for is wait for at most ns of real time. Returns false if the fence is not signaled by then.
	bool wait_for(int64_t ns);
	// signaled_at returns the time of signal. Only for a signaled fence.
	int64_t signaled_at() const { return signaled_at_; }
	// add_waiter registers a queue that signal resumes. Returns false if the fence is signaled already.
	bool add_waiter(std::shared_ptr<Stream> stream);

private:
	mutable std::mutex mu_;
	std::condition_variable condition_;
	bool signaled_ = false;
	int64_t signaled_at_ = 0;
	std::vector<std::shared_ptr<Stream>> waiting_streams_;
};

class Stream : public std::enable_shared_from_this<Stream> {
public:
	enum class Kind { kInline, kWorker, kWait };
	using Work = std::function<void()>;

	static constexpr int kMostLaunches = 1024;

	// flags as for cudaStreamCreateWithFlags.
	static std::shared_ptr<Stream> make(int device, unsigned flags, int priority);

	// push appends work. Inline work on an idle stream is done when push returns.
	void push(Kind kind, Work work);
	// run_if_idle runs the work on this thread if the stream is idle. Else it does nothing and returns false.
	bool run_if_idle(const Work &work);
	// push_wait delays all later work until the fence is signaled.
	void push_wait(std::shared_ptr<Fence> fence);
	// record_if_busy returns a fence behind all work queued so far, or nullptr if there is none.
	std::shared_ptr<Fence> record_if_busy();
	// record does the same for events: if the stream is idle, the fence is signaled already.
	std::shared_ptr<Fence> record() { return record(true); }
	void synchronize();
	// await_room waits, as a thread of the application, while kMostLaunches items are queued: as on a GPU, whose
	// launch queue has so many entries, and so that a program that launches faster than its kernels end does not
	// fill the memory. It waits for one free entry, not for many: when that is free does not depend on how fast
	// this host is.
	void await_room();
	// query returns true if all work is done. In virtual time it waits if it is asked again and again.
	bool query();
	// retire ends the worker once the queued work is done. No push may follow.
	void retire();

	// item_ready returns when the item could start that the calling thread runs, in ns of now_ns(): when the one
	// before it was done, or when it was queued.
	static int64_t item_ready();

	// workers_join_clock returns when every worker is an actor of the clock that has just been set.
	static void workers_join_clock();

	int device() const { return device_; }
	unsigned flags() const { return flags_; }
	int priority() const { return priority_; }
	uint64_t id() const { return id_; }

private:
	friend class Fence;
	struct Item {
		Kind kind;
		Work work;
		std::shared_ptr<Fence> fence;
		bool is_launch; // the application's, and no wait
	};

	Stream(int device, unsigned flags, int priority);
	void append(Item item);
	std::shared_ptr<Fence> record(bool is_launch);
	// advance runs inline work from the front of the queue. It wakes the worker if worker work is at the front.
	void advance(std::unique_lock<std::mutex> &lock);
	// check_wait returns true if the wait at the front is over. If not, it registers this queue with the fence.
	bool check_wait(const std::shared_ptr<Fence> &fence);
	void resume();
	void run_front(std::unique_lock<std::mutex> &lock);
	bool has_room() const { return launches_ < kMostLaunches; }
	void count_finished();
	void start_worker();
	void wake_worker();
	// outside: the thread is no actor yet, because there was no clock when it started.
	void work_loop(bool outside);

	const int device_;
	const unsigned flags_;
	const int priority_;
	const uint64_t id_;

	std::mutex mu_;
	std::condition_variable worker_wake_, progress_;
	std::deque<Item> queue_;
	uint64_t submitted_ = 0, finished_ = 0;
	int64_t front_ready_ = 0; // when the item at the front could start
	int launches_ = 0; // queued or running
	int waiters_ = 0; // threads in synchronize
	int room_waiters_ = 0; // threads in await_room
	bool queried_ = false; // a query has found it busy
	bool busy_ = false; // a thread runs the item that was at the front
	bool waiting_ = false; // the front is a wait, and its fence will resume this queue
	bool retired_ = false;
	bool has_worker_ = false;
	std::thread worker_;
};

// now_ns returns the time in ns: of the fabric's virtual clock if there is one, else CLOCK_MONOTONIC.
int64_t now_ns();

} // namespace soft
