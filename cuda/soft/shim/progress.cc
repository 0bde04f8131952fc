// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: how its threads take part in a virtual clock (shaper/clock/calls.h). The linker's --wrap leads
// NCCL's own calls of the functions below to here; calls of other libraries are not affected.
//
// NCCL's progress thread is an actor. It polls: a pass over all operations, then, if the pass did nothing, sched_yield.
// Some of what a pass does is not visible from outside: it stores counters that the executor polls. So the functions
// that make progress on an operation are wrapped too, and say whether they did something (ncclProxyArgs.idle).
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "../runtime/clock.h"

extern "C" {
int __real_sched_yield(void);
int __real_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int __real_pthread_cond_signal(pthread_cond_t *);
int __real_pthread_cond_broadcast(pthread_cond_t *);
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __real_pthread_join(pthread_t, void **);

// NCCL's transports, as data: the places of some pointers in them are all that is used.
extern char netTransport[], shmTransport[], p2pTransport[], collNetTransport[];
}

// NCCL's progress thread.
void *ncclProxyProgress(void *state);

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
	bool has_seen = false;
	uint32_t seen = 0; // acts of the node before this pass
};

thread_local ProgressThread *progress_thread = nullptr;

// The progress threads that have not ended, by their handles.
std::mutex running_mu;
struct Running {
	pthread_t thread;
	bool used, ended;
} running[64];

void set_running(pthread_t thread)
{
	std::lock_guard<std::mutex> lock(running_mu);
	for (Running &r : running) {
		if (r.used)
			continue;
		r = { thread, true, false };
		return;
	}
}

void set_ended()
{
	std::lock_guard<std::mutex> lock(running_mu);
	for (Running &r : running)
		if (r.used && pthread_equal(r.thread, pthread_self()))
			r.ended = true;
}

// has_ended returns true for a progress thread that has ended, and for any other thread.
bool has_ended(pthread_t thread)
{
	std::lock_guard<std::mutex> lock(running_mu);
	for (Running &r : running)
		if (r.used && pthread_equal(r.thread, thread))
			return r.ended;
	return true;
}

void forget(pthread_t thread)
{
	std::lock_guard<std::mutex> lock(running_mu);
	for (Running &r : running)
		if (r.used && pthread_equal(r.thread, thread))
			r.used = false;
}

// run_as_actor runs the progress thread as an actor that its creator has entered.
void run_as_actor(ddlemu_actor *actor, void (*run)(void *), void *arg)
{
	ProgressThread me{ actor };
	progress_thread = &me;
	run(arg);
	progress_thread = nullptr;
	// Somebody may wait for the end of this thread. It works before this one leaves, so the clock does not move.
	set_ended();
	const ddlemu_clock_calls *clock = ddlemuSoftClock();
	clock->raise(DDLEMU_SIGNALS);
	clock->leave(actor);
}

// enter_progress enters the actor of a progress thread that is about to start: there is no moment at which nobody
// works. Null without a clock.
ddlemu_actor *enter_progress() { return ddlemuSoftClock() ? ddlemuSoftEnter("nccl-progress") : nullptr; }

// begin_pass reads the node's acts before the next pass.
void begin_pass(ProgressThread *me)
{
	me->seen = ddlemuSoftClock()->read(DDLEMU_ACTS);
	me->has_seen = true;
	me->fruitful = false;
}

void yield_progress(ProgressThread *me)
{
	if (me->has_seen && !me->fruitful)
		ddlemuSoftClock()->idle(me->actor, DDLEMU_ACTS, me->seen);
	begin_pass(me);
}

// --- the application's thread

// It yields while it waits for space in a queue of NCCL, which may need virtual time. It also yields now and then when
// it does not wait, so only many yields without any act count.
constexpr unsigned kYields = 64;

void yield_application(ddlemu_actor *application)
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
		clock->idle(application, DDLEMU_ACTS, seen);
}

// --- what makes progress

Progress originals[8];

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
void wrap(char *transport, size_t offset)
{
	auto *place = reinterpret_cast<Progress *>(transport + offset);
	if (!*place)
		return;
	originals[I] = *place;
	*place = wrapped_progress<I>;
}

__attribute__((constructor)) void wrap_transports()
{
	wrap<0>(netTransport, kSendProgress), wrap<1>(netTransport, kRecvProgress);
	wrap<2>(shmTransport, kSendProgress), wrap<3>(shmTransport, kRecvProgress);
	wrap<4>(p2pTransport, kSendProgress), wrap<5>(p2pTransport, kRecvProgress);
	wrap<6>(collNetTransport, kSendProgress), wrap<7>(collNetTransport, kRecvProgress);
}

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
	progress_thread->fruitful = true; // the next pass may find new operations: no claim from before it counts
}

// signaled tells whoever waits or polls what NCCL has signaled.
void signaled()
{
	if (const ddlemu_clock_calls *clock = ddlemuSoftClock())
		clock->raise(DDLEMU_SIGNALS);
}

// join_progress waits, as the application, until `ended` says that a progress thread has ended: it may need virtual
// time for its last operations.
template <class Ended>
void join_progress(Ended ended)
{
	ddlemu_actor *application = ddlemuSoftApplication();
	const ddlemu_clock_calls *clock = ddlemuSoftClock();
	while (application) {
		const uint32_t seen = clock->read(DDLEMU_SIGNALS);
		if (ended())
			return;
		clock->idle(application, DDLEMU_SIGNALS, seen);
	}
}

struct Start {
	ddlemu_actor *actor;
	void *state;
};

void run_proxy(void *state) { ncclProxyProgress(state); }

// NCCL 2.22: pthread_create(..., ncclProxyProgress, state)
void *start_progress(void *arg)
{
	Start start = *static_cast<Start *>(arg);
	delete static_cast<Start *>(arg);
	set_running(pthread_self());
	run_as_actor(start.actor, run_proxy, start.state);
	return nullptr;
}

// NCCL 2.29: std::thread(ncclProxyProgress, state)
struct ProgressState : std::thread::_State {
	std::unique_ptr<std::thread::_State> inner;
	ddlemu_actor *actor;
	ProgressState(std::unique_ptr<std::thread::_State> s, ddlemu_actor *a) : inner(std::move(s)), actor(a) {}
	void _M_run() override
	{
		set_running(pthread_self());
		run_as_actor(actor, [](void *s) { static_cast<std::thread::_State *>(s)->_M_run(); }, inner.get());
	}
};

// is_progress returns true if the state of a std::thread holds the function of the progress thread: behind the pointer
// to the virtual functions it has the function and its argument, in any order.
bool is_progress(const std::thread::_State *state)
{
	void *const *words = reinterpret_cast<void *const *>(state);
	void *want = reinterpret_cast<void *>(ncclProxyProgress);
	return words[1] == want || words[2] == want;
}

} // namespace

extern "C" {

int __wrap_sched_yield(void)
{
	if (progress_thread)
		yield_progress(progress_thread);
	else if (ddlemu_actor *application = ddlemuSoftApplication())
		yield_application(application);
	else
		return __real_sched_yield();
	return 0;
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

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	ddlemu_actor *actor = start == ncclProxyProgress ? enter_progress() : nullptr;
	if (!actor)
		return __real_pthread_create(thread, attr, start, arg);
	return __real_pthread_create(thread, attr, start_progress, new Start{ actor, arg });
}

int __wrap_pthread_join(pthread_t thread, void **value)
{
	join_progress([=] { return has_ended(thread); });
	forget(thread);
	return __real_pthread_join(thread, value);
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
	if (is_progress(state->get()))
		if (ddlemu_actor *actor = enter_progress())
			state->reset(new ProgressState(std::unique_ptr<std::thread::_State>(state->release()), actor));
	real_start_thread(thread, state, depend);
}

void wrap_join(std::thread *thread)
{
	const pthread_t handle = thread->native_handle();
	join_progress([=] { return has_ended(handle); });
	forget(handle);
	real_join(thread);
}

} // extern "C"
