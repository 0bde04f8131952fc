// SPDX-License-Identifier: Apache-2.0
// Streams: queues of work that run in order, independently of each other.
//
// Three kinds of work keep the number of thread wake-ups low (each costs tens of microseconds):
//   light  short work (an event record, a small copy): whoever makes it the front of the queue runs it at once;
//   heavy  kernels, big copies, host functions: the stream's own worker thread, started with the first of them;
//   wait   nothing runs; the queue is parked on a gate, and whoever opens the gate moves the queue on.
//
// Locking: Stream::mu_ before Gate::mu_. Work runs with no lock held; busy_ keeps a queue to one runner at a time.
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

// A Gate opens once, when the work it stands for is done, and then remembers when that was.
class Gate {
public:
	// open moves on every queue that is parked here. now_ns is CLOCK_MONOTONIC.
	void open(int64_t now_ns);
	bool is_open() const;
	void wait();
	// opened_at returns the time given to open; only for an open gate.
	int64_t opened_at() const { return opened_at_; }
	// park registers a queue to be moved on when the gate opens; false if it is open already.
	bool park(std::shared_ptr<Stream> stream);

private:
	mutable std::mutex mu_;
	std::condition_variable opened_;
	bool open_ = false;
	int64_t opened_at_ = 0;
	std::vector<std::shared_ptr<Stream>> parked_;
};

class Stream : public std::enable_shared_from_this<Stream> {
public:
	enum class Kind { kLight, kHeavy, kWait };
	using Work = std::function<void()>;

	// flags as for cudaStreamCreateWithFlags.
	static std::shared_ptr<Stream> make(int device, unsigned flags, int priority);

	// push appends work; light work on an idle stream has run when push returns.
	void push(Kind kind, Work work);
	// run_if_idle runs the work before it returns if the stream is idle; else it does nothing and returns false.
	bool run_if_idle(const Work &work);
	// push_wait holds back all later work until the gate is open.
	void push_wait(std::shared_ptr<Gate> gate);
	// tail returns a gate that opens when all work queued so far is done, or nullptr if there is none.
	std::shared_ptr<Gate> tail();
	// record is tail for events: with nothing queued it returns a gate that is open already.
	std::shared_ptr<Gate> record();
	void synchronize();
	bool idle();
	// retire lets queued work complete and then ends the worker. No push may follow.
	void retire();

	int device() const { return device_; }
	unsigned flags() const { return flags_; }
	int priority() const { return priority_; }
	uint64_t id() const { return id_; }

private:
	friend class Gate;
	struct Item {
		Kind kind;
		Work work;
		std::shared_ptr<Gate> gate;
	};

	Stream(int device, unsigned flags, int priority);
	void append(Item item);
	// advance runs what can run without the worker; it wakes the worker if heavy work has come to the front.
	void advance(std::unique_lock<std::mutex> &lock);
	// pass tells whether the wait at the front is over; if not, the queue is parked.
	bool pass(const std::shared_ptr<Gate> &gate);
	void unpark();
	void run_front(std::unique_lock<std::mutex> &lock);
	void done_one();
	void work_loop();

	const int device_;
	const unsigned flags_;
	const int priority_;
	const uint64_t id_;

	std::mutex mu_;
	std::condition_variable heavy_front_, progress_;
	std::deque<Item> queue_;
	uint64_t submitted_ = 0, finished_ = 0;
	int waiters_ = 0; // threads in synchronize
	bool busy_ = false; // someone runs the item that was at the front
	bool parked_ = false; // the front is a wait and its gate knows of us
	bool retired_ = false;
	bool has_worker_ = false;
	std::thread worker_;
};

int64_t now_ns();

} // namespace soft
