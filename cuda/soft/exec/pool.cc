// SPDX-License-Identifier: Apache-2.0
#include "pool.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

#include "stats.h"

namespace softexec {
namespace {

constexpr unsigned kSpins = 16; // polls before the first yield, about a microsecond
constexpr size_t kMaxThreads = 8; // per grid; more do not help, because memory is the limit
constexpr size_t kThreadsPerRank = 2; // the executor's and the proxy's
constexpr size_t kMinBytesForHelp = 1 << 20; // takes one thread about 100 us, as long as another needs to wake up

void relax()
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

// The pool lives as long as the process: its threads are detached and sleep on the condition variable.
struct Pool {
	std::mutex mu;
	std::condition_variable wake;
	std::deque<std::function<void()>> tasks;
	size_t sleeping = 0;

	void submit(std::function<void()> task)
	{
		std::lock_guard<std::mutex> lock(mu);
		tasks.push_back(std::move(task));
		// A task may wait for other ranks, so no task waits for another one: if no thread sleeps, start one.
		if (tasks.size() > sleeping) {
			std::thread([this] { loop(); }).detach();
			sleeping++;
		} else {
			wake.notify_one();
		}
	}

	void loop()
	{
		std::unique_lock<std::mutex> lock(mu);
		for (;;) {
			wake.wait(lock, [this] { return !tasks.empty(); });
			std::function<void()> task = std::move(tasks.front());
			tasks.pop_front();
			sleeping--;
			lock.unlock();
			task();
			lock.lock();
			sleeping++;
		}
	}
};

Pool &pool()
{
	static Pool *p = new Pool; // never destroyed: its threads may run after main returns
	return *p;
}

size_t usable_cpus()
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set) != 0)
		return 1;
	return static_cast<size_t>(std::max(CPU_COUNT(&set), 1));
}

} // namespace

size_t thread_count(size_t blocks, int nranks, size_t bytes)
{
	static const size_t cpus = usable_cpus();
	size_t most = std::min(blocks, kMaxThreads);
	if (const char *fixed = std::getenv("DDLEMU_SOFT_THREADS"))
		return std::clamp<size_t>(std::strtoul(fixed, nullptr, 10), 1, most);
	if (bytes < kMinBytesForHelp)
		return 1;
	return std::clamp<size_t>(cpus / (kThreadsPerRank * static_cast<size_t>(std::max(nranks, 1))), 1, most);
}

void run_in_pool(std::function<void()> task) { pool().submit(std::move(task)); }

void Idle::wait()
{
	if (rounds_ == 0)
		since_ = now_ns();
	rounds_++;
	if (rounds_ <= kSpins)
		relax();
	else
		sched_yield();
}

void Idle::stop()
{
	counters.wait_ns.fetch_add(now_ns() - since_, std::memory_order_relaxed);
	rounds_ = 0;
}

} // namespace softexec
