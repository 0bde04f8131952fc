// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

namespace softexec {

std::atomic<const ddlemu_clock_calls *> clock_table{ nullptr };
std::atomic<const ddlemu_node_calls *> node_table{ nullptr };

namespace {

// The threads that have an actor. It is never destroyed: threads may run until the process ends.
struct ActorThreads {
	std::mutex mu;
	std::set<int> ids;
};

ActorThreads &actor_threads()
{
	static auto *threads = new ActorThreads;
	return *threads;
}

struct ThreadActor {
	ddlemu_actor *actor = nullptr;
	void set(ddlemu_actor *a)
	{
		actor = a;
		std::lock_guard<std::mutex> lock(actor_threads().mu);
		actor_threads().ids.insert(gettid());
	}
	~ThreadActor()
	{
		if (!actor)
			return;
		{
			std::lock_guard<std::mutex> lock(actor_threads().mu);
			actor_threads().ids.erase(gettid());
		}
		// Another thread may wait for the end of this one, or have been woken by it and lack a core.
		virtual_clock()->raise(DDLEMU_HANDOVERS);
		virtual_clock()->leave(actor);
		actor = nullptr;
	}
};

thread_local ThreadActor mine;

} // namespace

ddlemu_actor *enter_actor(const char *name, bool application)
{
	ddlemu_actor *actor = virtual_clock()->enter(name, application);
	if (!actor) {
		// Without an actor the clock would move while the thread works: wrong times, and nobody would notice.
		std::fprintf(stderr, "ddlemu: software CUDA: too many threads for a fabric with a virtual clock\n");
		std::abort();
	}
	return actor;
}

ddlemu_actor *thread_actor(const char *name, bool application)
{
	if (!mine.actor)
		mine.set(enter_actor(name, application));
	return mine.actor;
}

ddlemu_actor *own_actor() { return mine.actor; }

void adopt_actor(ddlemu_actor *actor)
{
	if (actor)
		mine.set(actor);
}

void forget_clock()
{
	clock_table.store(nullptr);
	node_table.store(nullptr);
	mine.actor = nullptr;
}

bool is_actor_thread(int thread)
{
	std::lock_guard<std::mutex> lock(actor_threads().mu);
	return actor_threads().ids.count(thread) != 0;
}

int64_t sleep_real_until(int64_t t)
{
	constexpr int64_t kWakes = 150000; // ns: a sleep may take that much longer
	for (;;) {
		const int64_t now = node_calls()->now(), left = t - now;
		if (left <= 0)
			return now;
		if (left > kWakes) {
			const int64_t ns = left - kWakes;
			const timespec nap = { ns / 1000000000, ns % 1000000000 };
			nanosleep(&nap, nullptr);
		} else {
			sched_yield();
		}
	}
}

} // namespace softexec
