// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: how the threads that it starts take part in a virtual clock (shaper/engine/clock/calls.h). The
// linker's
// --wrap leads NCCL's own calls of the functions below to here.
//
// NCCL has three kinds of threads. The progress thread and the threads of asynchronous jobs are actors. All others act
// only on behalf of a thread that waits for them meanwhile, and which is taken as working.
#include "threads.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "progress.h"

extern "C" {
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);
int __real_usleep(useconds_t);
}

// NCCL's threads.
void *ncclProxyProgress(void *state);
void *ncclAsyncJobMain(void *job);

namespace shim {
namespace {

enum class Kind { kProgress, kJob, kHelper };

struct Thread {
	Kind kind;
	ddlemu_actor *actor; // null for a thread that was started before there was a clock, and for a helper that works
	bool ended = false;
	std::shared_ptr<Thread> joins; // the thread that it waits for the end of
	bool joined = false; // a thread waits for its end
	int wake = -1; // an eventfd, see wake_descriptor
};

struct Threads {
	std::mutex mu; // of all that Thread has
	std::condition_variable changed;
	std::map<pthread_t, std::shared_ptr<Thread>> by_handle; // those that have not been joined
};

Threads &threads()
{
	static auto *all = new Threads; // never destroyed: threads may run until the process ends
	return *all;
}

thread_local std::shared_ptr<Thread> this_thread;

// Jobs that run and are no actors. While there is one, nobody may take a wait for jobs as idle.
std::atomic<int> jobs_without_actor{ 0 };

Kind kind_of(void *function)
{
	if (function == reinterpret_cast<void *>(ncclProxyProgress))
		return Kind::kProgress;
	return function == reinterpret_cast<void *>(ncclAsyncJobMain) ? Kind::kJob : Kind::kHelper;
}

// prepare makes the description of a thread that is about to start. It enters its actor here: so there is no moment at
// which nobody works.
std::shared_ptr<Thread> prepare(Kind kind)
{
	ddlemu_actor *actor = nullptr;
	if (kind != Kind::kHelper && ddlemuSoftClock())
		actor = ddlemuSoftEnter(kind == Kind::kJob ? "nccl-job" : "nccl-progress");
	if (kind == Kind::kJob && !actor)
		jobs_without_actor++;
	return std::make_shared<Thread>(Thread{ kind, actor });
}

// started stores the handle of a thread that has started.
void started(pthread_t handle, std::shared_ptr<Thread> t)
{
	std::lock_guard<std::mutex> lock(threads().mu);
	threads().by_handle[handle] = std::move(t);
}

// ends says that this thread ends. A thread that waits for that works from here on, and this thread's actor leaves
// after that, so the clock does not move in between.
void ends()
{
	{
		std::lock_guard<std::mutex> lock(threads().mu);
		this_thread->ended = true;
		if (this_thread->wake >= 0)
			close(this_thread->wake);
		this_thread->wake = -1;
	}
	if (this_thread->kind == Kind::kJob && !this_thread->actor)
		jobs_without_actor--;
	threads().changed.notify_all();
	signaled();
}

// set_actor stores the actor of this thread, a helper: whoever waits for its end looks again.
void set_actor(ddlemu_actor *actor)
{
	{
		std::lock_guard<std::mutex> lock(threads().mu);
		this_thread->actor = actor;
	}
	threads().changed.notify_all();
	signaled();
}

// run_thread runs what NCCL has started the thread for.
template <class Run>
void run_thread(std::shared_ptr<Thread> t, Run run)
{
	this_thread = std::move(t);
	// A job connects to other ranks, which may need virtual time to get there.
	if (this_thread->kind == Kind::kJob)
		ddlemuSoftJob(this_thread->actor);
	else
		ddlemuSoftAdopt(this_thread->actor);
	if (this_thread->kind == Kind::kHelper)
		ddlemuSoftHelper(set_actor);
	std::optional<ProgressThread> progress;
	if (this_thread->kind == Kind::kProgress && this_thread->actor)
		progress.emplace(this_thread->actor);
	run();
	progress.reset();
	ends();
}

// wait_as_actor waits for the end of a thread. It may need virtual time, for the last operations of the progress
// thread. So this thread is idle while that one is an actor itself, or waits in its turn for the end of an actor. Else
// that one works on behalf of this one.
void wait_as_actor(ddlemu_actor *me, const std::shared_ptr<Thread> &t)
{
	for (;;) {
		const uint32_t seen = ddlemuSoftClock()->read(DDLEMU_SIGNALS);
		std::unique_lock<std::mutex> lock(threads().mu);
		if (t->ended)
			return;
		std::shared_ptr<Thread> last = t;
		while (last->kind == Kind::kHelper && last->joins)
			last = last->joins;
		if (last->actor && !last->ended) {
			lock.unlock();
			ddlemuSoftIdle(me, DDLEMU_SIGNALS, seen);
		} else {
			threads().changed.wait(lock);
		}
	}
}

// set_joins says which thread this one, which is a helper, waits for.
void set_joins(std::shared_ptr<Thread> t)
{
	{
		std::lock_guard<std::mutex> lock(threads().mu);
		this_thread->joins = std::move(t);
	}
	threads().changed.notify_all();
}

// wake wakes a thread that polls its descriptor.
void wake(const Thread &t)
{
	const uint64_t one = 1;
	if (t.wake >= 0)
		(void)!write(t.wake, &one, sizeof one); // the descriptor is this program's, and has space
}

// join joins a thread: real() does it.
template <class Real>
void join(pthread_t handle, Real real)
{
	std::shared_ptr<Thread> t;
	{
		std::lock_guard<std::mutex> lock(threads().mu);
		auto it = threads().by_handle.find(handle);
		if (it != threads().by_handle.end()) {
			t = it->second;
			threads().by_handle.erase(it);
			t->joined = true;
			wake(*t);
		}
	}
	ddlemu_actor *me = t ? ddlemuSoftActor() : nullptr;
	if (me)
		wait_as_actor(me, t);
	const bool helps = t && this_thread && this_thread->kind == Kind::kHelper;
	if (helps)
		set_joins(t);
	real();
	if (helps)
		set_joins(nullptr);
}

// NCCL 2.22: pthread_create(thread, attributes, function, argument)
struct Start {
	std::shared_ptr<Thread> thread;
	void *(*function)(void *);
	void *argument;
};

void *start_thread(void *arg)
{
	std::unique_ptr<Start> start(static_cast<Start *>(arg));
	void *result = nullptr;
	run_thread(start->thread, [&] { result = start->function(start->argument); });
	return result;
}

// NCCL 2.29: std::thread(function, argument)
struct StartState : std::thread::_State {
	std::unique_ptr<std::thread::_State> inner;
	std::shared_ptr<Thread> thread;
	StartState(std::unique_ptr<std::thread::_State> s, std::shared_ptr<Thread> t)
		: inner(std::move(s)), thread(std::move(t))
	{
	}
	void _M_run() override
	{
		run_thread(thread, [this] { inner->_M_run(); });
	}
};

// kind_of_state returns what a std::thread is for: behind the pointer to the virtual functions its state has the
// function and the argument, in any order.
Kind kind_of_state(const std::thread::_State *state)
{
	void *const *words = reinterpret_cast<void *const *>(state);
	const Kind first = kind_of(words[1]);
	return first != Kind::kHelper ? first : kind_of(words[2]);
}

} // namespace

int wake_descriptor()
{
	if (!this_thread)
		return -1;
	std::lock_guard<std::mutex> lock(threads().mu);
	if (this_thread->wake >= 0)
		return this_thread->wake;
	this_thread->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (this_thread->joined)
		wake(*this_thread);
	return this_thread->wake;
}

} // namespace shim

using namespace shim;

extern "C" {

// NCCL looks at its jobs, and sleeps for 1 us if one is not done. The end of a job is signaled, so if nothing has been
// since the last look, there is nothing to see.
int __wrap_usleep(useconds_t us)
{
	thread_local bool looked = false;
	thread_local uint32_t seen = 0;
	ddlemu_actor *actor = us == 1 && jobs_without_actor == 0 ? ddlemuSoftActor() : nullptr;
	if (actor && looked)
		ddlemuSoftIdle(actor, DDLEMU_SIGNALS, seen);
	else
		__real_usleep(us);
	looked = actor != nullptr;
	if (looked)
		seen = ddlemuSoftClock()->read(DDLEMU_SIGNALS);
	return 0;
}

int __wrap_pthread_create(pthread_t *handle, const pthread_attr_t *attr, void *(*function)(void *), void *argument)
{
	std::shared_ptr<Thread> t = prepare(kind_of(reinterpret_cast<void *>(function)));
	auto *start = new Start{ t, function, argument };
	const int result = __real_pthread_create(handle, attr, start_thread, start);
	if (result == 0) {
		started(*handle, std::move(t));
		return 0;
	}
	if (t->actor)
		ddlemuSoftClock()->leave(t->actor);
	delete start;
	return result;
}

int __wrap_pthread_join(pthread_t handle, void **value)
{
	int result = 0;
	join(handle, [&] { result = __real_pthread_join(handle, value); });
	return result;
}

void real_join(std::thread *) __asm__("__real__ZNSt6thread4joinEv");
void wrap_join(std::thread *) __asm__("__wrap__ZNSt6thread4joinEv");

#define START "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"

// A unique_ptr is passed by reference to a temporary, by the C++ ABI.
void real_start_thread(std::thread *, std::unique_ptr<std::thread::_State> *, void (*)()) __asm__("__real_" START);
void wrap_start_thread(std::thread *, std::unique_ptr<std::thread::_State> *, void (*)()) __asm__("__wrap_" START);

void wrap_start_thread(std::thread *thread, std::unique_ptr<std::thread::_State> *state, void (*depend)())
{
	std::shared_ptr<Thread> t = prepare(kind_of_state(state->get()));
	state->reset(new StartState(std::unique_ptr<std::thread::_State>(state->release()), t));
	real_start_thread(thread, state, depend);
	started(thread->native_handle(), std::move(t));
}

void wrap_join(std::thread *thread)
{
	join(thread->native_handle(), [=] { real_join(thread); });
}

} // extern "C"
