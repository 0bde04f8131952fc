// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: how its threads take part in a virtual clock (shaper/clock/calls.h). The linker's --wrap leads
// NCCL's own calls of the functions below to here; calls of other libraries are not affected.
//
// NCCL has three kinds of threads. The progress thread and the threads of asynchronous jobs are actors. All others act
// only on behalf of a thread that waits for them meanwhile, and which is taken as working.
//
// NCCL's progress thread is an actor. It polls: a pass over all operations, then, if the pass did nothing, sched_yield.
// Some of what a pass does is not visible from outside: it stores counters that the executor polls. So the functions
// that make progress on an operation are wrapped too, and say whether they did something (ncclProxyArgs.idle).
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "../runtime/clock.h"

extern "C" {
int __real_sched_yield(void);
int __real_pthread_mutex_trylock(pthread_mutex_t *);
int __real_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int __real_pthread_cond_signal(pthread_cond_t *);
int __real_pthread_cond_broadcast(pthread_cond_t *);
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);
int __real_usleep(useconds_t);
ssize_t __real_recv(int, void *, size_t, int);
int __real_accept(int, struct sockaddr *, socklen_t *);

// One of NCCL's transports, as data: the places of some pointers in it are all that is used. The others have no
// operations for the progress thread, except with settings that the plugin refuses with a virtual clock.
extern char netTransport[];
}

// NCCL's threads.
void *ncclProxyProgress(void *state);
void *ncclAsyncJobMain(void *job);

namespace {

// Offsets in NCCL's structures, from the disassembly of Debian's objects: ncclProxyProgress calls op->progress and then
// reads op->idle. ncclTransport is a name of 8 bytes, canConnect, and two tables of 10 functions (send, recv), of which
// proxyProgress is the eighth.
constexpr size_t kSendProgress = 16 + 7 * 8, kRecvProgress = 16 + 10 * 8 + 7 * 8;
#if DDLEMU_NCCL_VERSION == 22203
constexpr size_t kIdle = 0x2bb8;
#elif DDLEMU_NCCL_VERSION == 22907
constexpr size_t kIdle = 0x80c8;
#else
#error "the offset of ncclProxyArgs.idle in this version of NCCL is not known"
#endif

using Progress = int (*)(void *state, void *args);

// --- the progress thread

struct ProgressThread {
	ddlemu_actor *actor;
	bool fruitful = false; // since the last yield
	bool has_locked = false; // the pool of posted operations, since the last yield
	bool has_seen = false;
	uint32_t seen = 0; // acts of the node before this pass
};

thread_local ProgressThread *progress_thread = nullptr;

// begin_pass reads the node's acts before the next pass.
void begin_pass(ProgressThread *me)
{
	me->seen = ddlemuSoftClock()->read(DDLEMU_ACTS);
	me->has_seen = true;
	me->fruitful = me->has_locked = false;
}

void yield_progress(ProgressThread *me)
{
	if (me->has_locked)
		ddlemuSoftClock()->raise(DDLEMU_ACTS); // it may have given back what a thread that posts waits for
	else if (me->has_seen && !me->fruitful)
		ddlemuSoftClock()->idle(me->actor, DDLEMU_ACTS, me->seen);
	begin_pass(me);
}

// --- other actors

// A thread yields while it waits for space in a queue of NCCL, which may need virtual time. It also yields now and then
// when it does not wait, so only many yields without any act count.
constexpr unsigned kYields = 64;

void yield_actor(ddlemu_actor *actor)
{
	thread_local unsigned yields = 0;
	thread_local uint32_t seen = 0;
	const ddlemu_clock_calls *clock = ddlemuSoftClock();
	const uint32_t acts = clock->read(DDLEMU_ACTS);
	if (yields == 0 || acts != seen) {
		yields = 0;
		seen = acts;
	}
	if (++yields < kYields)
		__real_sched_yield();
	else
		ddlemuSoftIdle(actor, DDLEMU_ACTS, seen);
}

// --- what makes progress

Progress originals[2];

template <int I>
int wrapped_progress(void *state, void *args)
{
	const int result = originals[I](state, args);
	if (progress_thread && *reinterpret_cast<int *>(static_cast<char *>(args) + kIdle) == 0) {
		progress_thread->fruitful = true;
		ddlemuSoftClock()->raise(DDLEMU_ACTS);
	}
	return result;
}

template <int I>
void wrap(size_t offset)
{
	auto *place = reinterpret_cast<Progress *>(netTransport + offset);
	originals[I] = *place;
	*place = wrapped_progress<I>;
}

__attribute__((constructor)) void wrap_transport() { wrap<0>(kSendProgress), wrap<1>(kRecvProgress); }

// --- waiting

// The progress thread waits for operations with the mutex that whoever posts one holds. It may wake up early: NCCL
// looks again. Operations are posted with the mutex held and signaled after that, so the number is read in time.
template <class Unlock, class Lock>
void wait_as_progress(Unlock unlock, Lock lock)
{
	const ddlemu_clock_calls *clock = ddlemuSoftClock();
	const uint32_t seen = clock->read(DDLEMU_SIGNALS);
	unlock();
	clock->idle(progress_thread->actor, DDLEMU_SIGNALS, seen);
	lock();
	progress_thread->has_locked = true;
}

// signaled tells whoever waits or polls what NCCL has signaled.
void signaled()
{
	if (const ddlemu_clock_calls *clock = ddlemuSoftClock())
		clock->raise(DDLEMU_SIGNALS);
}

// --- threads that NCCL starts

enum class Kind { kProgress, kJob, kHelper };

struct Thread {
	Kind kind;
	ddlemu_actor *actor; // null for a thread that was started before there was a clock, and for a helper that works
	bool ended = false;
	std::shared_ptr<Thread> joins; // the thread that it waits for the end of
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
	ddlemuSoftAdopt(this_thread->actor);
	if (this_thread->kind == Kind::kHelper)
		ddlemuSoftHelper(set_actor);
	ProgressThread progress{ this_thread->actor };
	if (this_thread->kind == Kind::kProgress && this_thread->actor)
		progress_thread = &progress;
	run();
	progress_thread = nullptr;
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

// ask_socket asks a socket: while NCCL sets up, it waits for another process by asking again and again.
template <class Ask>
auto ask_socket(Ask ask)
{
	const auto result = ask();
	const int error = errno;
	if (ddlemuSoftClock())
		ddlemuSoftAskedSocket(result >= 0 || (error != EAGAIN && error != EWOULDBLOCK));
	errno = error;
	return result;
}

} // namespace

extern "C" {

int __wrap_sched_yield(void)
{
	if (progress_thread)
		yield_progress(progress_thread);
	else if (ddlemu_actor *actor = ddlemuSoftActor())
		yield_actor(actor);
	else
		return __real_sched_yield();
	return 0;
}

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

// The progress thread takes new operations only if nobody else has the mutex. Whoever has it has signaled already that
// there are some, so a pass that could not look is not fruitless.
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	const int result = __real_pthread_mutex_trylock(mutex);
	if (progress_thread && result == 0)
		progress_thread->has_locked = true;
	else if (progress_thread)
		progress_thread->fruitful = true;
	return result;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	if (!progress_thread)
		return __real_pthread_cond_wait(cond, mutex);
	wait_as_progress([=] { pthread_mutex_unlock(mutex); }, [=] { pthread_mutex_lock(mutex); });
	return 0;
}

int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
	const int result = __real_pthread_cond_signal(cond);
	signaled();
	return result;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
	const int result = __real_pthread_cond_broadcast(cond);
	signaled();
	return result;
}

ssize_t __wrap_recv(int fd, void *data, size_t size, int flags)
{
	return ask_socket([=] { return __real_recv(fd, data, size, flags); });
}

int __wrap_accept(int fd, struct sockaddr *address, socklen_t *size)
{
	return ask_socket([=] { return __real_accept(fd, address, size); });
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

#define COND "_ZNSt18condition_variable"

void real_cond_wait(std::condition_variable *, std::unique_lock<std::mutex> *) __asm__(
	"__real_" COND "4waitERSt11unique_lockISt5mutexE");
void wrap_cond_wait(std::condition_variable *, std::unique_lock<std::mutex> *) __asm__(
	"__wrap_" COND "4waitERSt11unique_lockISt5mutexE");
void real_notify_one(std::condition_variable *) __asm__("__real_" COND "10notify_oneEv");
void wrap_notify_one(std::condition_variable *) __asm__("__wrap_" COND "10notify_oneEv");
void real_notify_all(std::condition_variable *) __asm__("__real_" COND "10notify_allEv");
void wrap_notify_all(std::condition_variable *) __asm__("__wrap_" COND "10notify_allEv");
void real_join(std::thread *) __asm__("__real__ZNSt6thread4joinEv");
void wrap_join(std::thread *) __asm__("__wrap__ZNSt6thread4joinEv");

#define START "_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"

// A unique_ptr is passed by reference to a temporary, by the C++ ABI.
void real_start_thread(std::thread *, std::unique_ptr<std::thread::_State> *, void (*)()) __asm__("__real_" START);
void wrap_start_thread(std::thread *, std::unique_ptr<std::thread::_State> *, void (*)()) __asm__("__wrap_" START);

void wrap_cond_wait(std::condition_variable *cond, std::unique_lock<std::mutex> *lock)
{
	if (!progress_thread)
		real_cond_wait(cond, lock);
	else
		wait_as_progress([=] { lock->unlock(); }, [=] { lock->lock(); });
}

void wrap_notify_one(std::condition_variable *cond)
{
	real_notify_one(cond);
	signaled();
}

void wrap_notify_all(std::condition_variable *cond)
{
	real_notify_all(cond);
	signaled();
}

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
