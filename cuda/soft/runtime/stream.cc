// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <set>
#include <utility>

#include "clock.h"
#include "sampler.h"

namespace soft {

int64_t now_ns()
{
	if (const ddlemu_clock_calls *clock = softexec::virtual_clock())
		return clock->now();
	return real_ns();
}

// --- Fence -----------------------------------------------------------------------------------------------------

void Fence::signal(int64_t now)
{
	std::vector<std::shared_ptr<Stream>> waiting;
	{
		std::lock_guard<std::mutex> lock(mu_);
		if (signaled_)
			return;
		signaled_ = true;
		signaled_at_ = now;
		waiting.swap(waiting_streams_);
		condition_.notify_all();
	}
	softexec::raise_number(DDLEMU_SIGNALS);
	// Recursion ends: at each level another stream is busy, and a busy stream is not advanced again.
	for (auto &stream : waiting)
		stream->resume();
}

bool Fence::is_signaled() const
{
	std::lock_guard<std::mutex> lock(mu_);
	return signaled_;
}

bool Fence::query() const
{
	return application_query([this] { return is_signaled(); });
}

void Fence::wait()
{
	std::unique_lock<std::mutex> lock(mu_);
	application_wait(lock, condition_, [this] { return signaled_; });
}

bool Fence::wait_for(int64_t ns)
{
	const int64_t now = real_ns();
	std::unique_lock<std::mutex> lock(mu_);
	const int64_t deadline = ns < softexec::kNoTime - now ? now + ns : softexec::kNoTime;
	return application_wait(lock, condition_, [this] { return signaled_; }, deadline);
}

bool Fence::add_waiter(std::shared_ptr<Stream> stream)
{
	std::lock_guard<std::mutex> lock(mu_);
	if (signaled_)
		return false;
	waiting_streams_.push_back(std::move(stream));
	return true;
}

// --- Stream: submitting ---------------------------------------------------------------------------------------

namespace {

constexpr char kWorkerName[] = "soft-stream";

uint64_t next_id()
{
	static std::atomic<uint64_t> last{ 2 }; // 1 and 2 are the handles of the default streams
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
	if (submitted_ == finished_)
		front_ready_ = now_ns();
	launches_ += item.is_launch;
	queue_.push_back(std::move(item));
	submitted_++;
	advance(lock);
}

void Stream::push(Kind kind, Work work) { append({ kind, std::move(work), nullptr, true }); }

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
	count_finished();
	advance(lock);
	return true;
}

void Stream::push_wait(std::shared_ptr<Fence> fence)
{
	if (!fence->is_signaled())
		append({ Kind::kWait, nullptr, std::move(fence), false });
}

std::shared_ptr<Fence> Stream::record_if_busy()
{
	{
		std::lock_guard<std::mutex> lock(mu_);
		if (submitted_ == finished_)
			return nullptr;
	}
	return record(false);
}

std::shared_ptr<Fence> Stream::record(bool is_launch)
{
	auto fence = std::make_shared<Fence>();
	append({ Kind::kInline, [fence] { fence->signal(now_ns()); }, nullptr, is_launch });
	return fence;
}

void Stream::synchronize()
{
	std::unique_lock<std::mutex> lock(mu_);
	const uint64_t goal = submitted_;
	waiters_++;
	application_wait(lock, progress_, [&] { return finished_ >= goal; });
	waiters_--;
}

void Stream::await_room()
{
	std::unique_lock<std::mutex> lock(mu_);
	room_waiters_++;
	application_wait(lock, progress_, [&] { return has_room(); });
	room_waiters_--;
}

bool Stream::query()
{
	return application_query([this] {
		std::lock_guard<std::mutex> lock(mu_);
		queried_ = submitted_ != finished_;
		return !queried_;
	});
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
		wake_worker();
	}
	if (!worker.joinable())
		return;
	// A worker with queued work finishes it first. It has a reference to this stream.
	if (drained && worker.get_id() != std::this_thread::get_id())
		worker.join();
	else
		worker.detach();
}

// --- Stream: running ------------------------------------------------------------------------------------------

void Stream::count_finished()
{
	finished_++;
	front_ready_ = now_ns();
	const bool waited_for = waiters_ > 0 || (room_waiters_ > 0 && has_room());
	if (waited_for)
		progress_.notify_all();
	if (waited_for || queried_)
		softexec::raise_number(DDLEMU_SIGNALS);
}

void Stream::wake_worker()
{
	worker_wake_.notify_one();
	softexec::raise_number(DDLEMU_SIGNALS);
}

bool Stream::check_wait(const std::shared_ptr<Fence> &fence)
{
	if (waiting_)
		return false;
	waiting_ = fence->add_waiter(shared_from_this());
	return !waiting_;
}

void Stream::resume()
{
	std::unique_lock<std::mutex> lock(mu_);
	waiting_ = false;
	queue_.pop_front();
	count_finished();
	advance(lock);
}

namespace {
thread_local int64_t started_ready = 0; // of the item that this thread started last
}

int64_t Stream::item_ready() { return started_ready; }

void Stream::run_front(std::unique_lock<std::mutex> &lock)
{
	bool is_launch;
	{
		Work work = std::move(queue_.front().work);
		is_launch = queue_.front().is_launch;
		queue_.pop_front();
		busy_ = true;
		started_ready = front_ready_;
		lock.unlock();
		work();
	} // destroys what the work references, before the stream counts as done
	lock.lock();
	busy_ = false;
	launches_ -= is_launch;
	count_finished();
}

void Stream::advance(std::unique_lock<std::mutex> &lock)
{
	while (!busy_ && !queue_.empty()) {
		Item &front = queue_.front();
		if (front.kind == Kind::kWait) {
			if (!check_wait(front.fence))
				return;
			queue_.pop_front();
			count_finished();
		} else if (front.kind == Kind::kInline) {
			run_front(lock);
		} else {
			if (!has_worker_)
				start_worker();
			wake_worker();
			return;
		}
	}
	if (retired_)
		wake_worker();
}

namespace {

// The streams with a worker, and how many of the workers are no actors because there was no clock when they started.
struct Workers {
	std::mutex mu;
	std::set<std::shared_ptr<Stream>> streams;
	std::atomic<int> outside{ 0 };
};

Workers &workers()
{
	static auto *w = new Workers; // never destroyed: workers may run until the process ends
	return *w;
}

} // namespace

void Stream::workers_join_clock()
{
	std::set<std::shared_ptr<Stream>> streams;
	{
		std::lock_guard<std::mutex> all(workers().mu);
		streams = workers().streams;
	}
	for (const auto &s : streams) {
		std::lock_guard<std::mutex> lock(s->mu_);
		s->worker_wake_.notify_one();
	}
	while (workers().outside.load() != 0)
		std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void Stream::start_worker()
{
	has_worker_ = true;
	// The worker handles no signals: they are for the threads of the program.
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	{
		std::lock_guard<std::mutex> all(workers().mu);
		workers().streams.insert(shared_from_this());
	}
	// This thread enters the actor, so that there is no moment at which nobody works.
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	ddlemu_actor *actor = clock ? softexec::enter_actor(kWorkerName) : nullptr;
	if (!actor)
		workers().outside++;
	worker_ = std::thread([self = shared_from_this(), actor] {
		softexec::adopt_actor(actor);
		self->work_loop(actor == nullptr);
		std::lock_guard<std::mutex> all(workers().mu);
		workers().streams.erase(self);
	});
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	if (retired_)
		worker_.detach(); // retire ran before there was a worker
}

void Stream::work_loop(bool outside)
{
	pthread_setname_np(pthread_self(), kWorkerName);
	// The worker becomes an actor as soon as there is a clock.
	auto actor = [&outside] {
		ddlemu_actor *a = softexec::thread_actor(kWorkerName);
		if (outside)
			workers().outside--;
		outside = false;
		return a;
	};
	std::unique_lock<std::mutex> lock(mu_);
	while (true) {
		wait_until(lock, worker_wake_, actor, softexec::virtual_idle, [this] {
			bool has_work = !busy_ && !queue_.empty() && queue_.front().kind == Kind::kWorker;
			return has_work || (retired_ && submitted_ == finished_);
		});
		if (submitted_ == finished_)
			break;
		run_front(lock);
		while (!busy_ && !queue_.empty() && queue_.front().kind == Kind::kWorker)
			run_front(lock);
		advance(lock);
	}
	if (outside)
		workers().outside--;
}

} // namespace soft
