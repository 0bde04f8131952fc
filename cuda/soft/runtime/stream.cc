// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <utility>

namespace soft {

int64_t now_ns()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// --- Gate -----------------------------------------------------------------------------------------------------

void Gate::open(int64_t now)
{
	std::vector<std::shared_ptr<Stream>> parked;
	{
		std::lock_guard<std::mutex> lock(mu_);
		if (open_)
			return;
		open_ = true;
		opened_at_ = now;
		parked.swap(parked_);
		opened_.notify_all();
	}
	// Nested calls end: each level holds another stream's busy_, and a busy stream is left to its runner.
	for (auto &stream : parked)
		stream->unpark();
}

bool Gate::is_open() const
{
	std::lock_guard<std::mutex> lock(mu_);
	return open_;
}

void Gate::wait()
{
	std::unique_lock<std::mutex> lock(mu_);
	opened_.wait(lock, [this] { return open_; });
}

bool Gate::park(std::shared_ptr<Stream> stream)
{
	std::lock_guard<std::mutex> lock(mu_);
	if (open_)
		return false;
	parked_.push_back(std::move(stream));
	return true;
}

// --- Stream: submitting ---------------------------------------------------------------------------------------

namespace {

uint64_t next_id()
{
	static std::atomic<uint64_t> last{ 2 }; // 1 and 2 are the default streams' handles
	return ++last;
}

} // namespace

Stream::Stream(int device, unsigned flags, int priority)
	: device_(device), flags_(flags), priority_(priority), id_(next_id())
{
}

std::shared_ptr<Stream> Stream::make(int device, unsigned flags, int priority)
{
	return std::shared_ptr<Stream>(new Stream(device, flags, priority));
}

void Stream::append(Item item)
{
	std::unique_lock<std::mutex> lock(mu_);
	queue_.push_back(std::move(item));
	submitted_++;
	advance(lock);
}

void Stream::push(Kind kind, Work work) { append({ kind, std::move(work), nullptr }); }

bool Stream::run_if_idle(const Work &work)
{
	std::unique_lock<std::mutex> lock(mu_);
	if (submitted_ != finished_)
		return false;
	submitted_++;
	busy_ = true;
	lock.unlock();
	work();
	lock.lock();
	busy_ = false;
	done_one();
	advance(lock);
	return true;
}

void Stream::push_wait(std::shared_ptr<Gate> gate)
{
	if (!gate->is_open())
		append({ Kind::kWait, nullptr, std::move(gate) });
}

std::shared_ptr<Gate> Stream::tail()
{
	{
		std::lock_guard<std::mutex> lock(mu_);
		if (submitted_ == finished_)
			return nullptr;
	}
	return record();
}

std::shared_ptr<Gate> Stream::record()
{
	auto gate = std::make_shared<Gate>();
	push(Kind::kLight, [gate] { gate->open(now_ns()); });
	return gate;
}

void Stream::synchronize()
{
	std::unique_lock<std::mutex> lock(mu_);
	const uint64_t goal = submitted_;
	waiters_++;
	progress_.wait(lock, [&] { return finished_ >= goal; });
	waiters_--;
}

bool Stream::idle()
{
	std::lock_guard<std::mutex> lock(mu_);
	return submitted_ == finished_;
}

void Stream::retire()
{
	std::thread worker;
	bool drained;
	{
		std::lock_guard<std::mutex> lock(mu_);
		retired_ = true;
		drained = submitted_ == finished_;
		worker = std::move(worker_);
		heavy_front_.notify_one();
	}
	if (!worker.joinable())
		return;
	// A worker that still has work is left to finish it; it owns a reference to this stream.
	if (drained && worker.get_id() != std::this_thread::get_id())
		worker.join();
	else
		worker.detach();
}

// --- Stream: running ------------------------------------------------------------------------------------------

void Stream::done_one()
{
	finished_++;
	if (waiters_ > 0)
		progress_.notify_all();
}

bool Stream::pass(const std::shared_ptr<Gate> &gate)
{
	if (parked_)
		return false;
	parked_ = gate->park(shared_from_this());
	return !parked_;
}

void Stream::unpark()
{
	std::unique_lock<std::mutex> lock(mu_);
	parked_ = false;
	queue_.pop_front();
	done_one();
	advance(lock);
}

void Stream::run_front(std::unique_lock<std::mutex> &lock)
{
	{
		Work work = std::move(queue_.front().work);
		queue_.pop_front();
		busy_ = true;
		lock.unlock();
		work();
	} // what the work holds is let go before the stream is seen to be done
	lock.lock();
	busy_ = false;
	done_one();
}

void Stream::advance(std::unique_lock<std::mutex> &lock)
{
	while (!busy_ && !queue_.empty()) {
		Item &front = queue_.front();
		if (front.kind == Kind::kWait) {
			if (!pass(front.gate))
				return;
			queue_.pop_front();
			done_one();
		} else if (front.kind == Kind::kLight) {
			run_front(lock);
		} else {
			if (!has_worker_) {
				has_worker_ = true;
				// Signals are the program's own threads' business.
				sigset_t all, before;
				sigfillset(&all);
				pthread_sigmask(SIG_SETMASK, &all, &before);
				worker_ = std::thread([self = shared_from_this()] { self->work_loop(); });
				pthread_sigmask(SIG_SETMASK, &before, nullptr);
				if (retired_)
					worker_.detach(); // retire has been here already and found no worker
			}
			heavy_front_.notify_one();
			return;
		}
	}
	if (retired_)
		heavy_front_.notify_one();
}

void Stream::work_loop()
{
	pthread_setname_np(pthread_self(), "soft-stream");
	std::unique_lock<std::mutex> lock(mu_);
	while (true) {
		heavy_front_.wait(lock, [this] {
			bool heavy = !busy_ && !queue_.empty() && queue_.front().kind == Kind::kHeavy;
			return heavy || (retired_ && submitted_ == finished_);
		});
		if (submitted_ == finished_)
			return;
		run_front(lock);
		while (!busy_ && !queue_.empty() && queue_.front().kind == Kind::kHeavy)
			run_front(lock);
		advance(lock);
	}
}

} // namespace soft
