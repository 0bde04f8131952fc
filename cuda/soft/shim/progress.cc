// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: how its progress thread, and whoever waits for it, take part in a virtual clock
// (shaper/engine/clock/calls.h). The linker's --wrap leads NCCL's own calls of the functions below to here; calls of
// other libraries are not affected.
//
// Some of what a pass of the progress thread does is not visible from outside: it stores counters that the executor
// polls. So the functions that make progress on an operation are wrapped too, and say whether they did something
// (ncclProxyArgs.idle).
#include "progress.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>

#include "args.h"
#include "pool.h"

extern "C" {
int __real_pthread_mutex_trylock(pthread_mutex_t *);
int __real_pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int __real_pthread_cond_signal(pthread_cond_t *);
int __real_pthread_cond_broadcast(pthread_cond_t *);

// One of NCCL's transports, as data: the places of some pointers in it are all that is used. The others have no
// operations for the progress thread, except with settings that the plugin refuses with a virtual clock.
extern char netTransport[];
}

namespace shim {
namespace {

// ncclTransport is a name of 8 bytes, canConnect, and two tables of 10 functions (send, recv), of which proxyProgress
// is the eighth.
constexpr size_t kSendProgress = 16 + 7 * 8, kRecvProgress = 16 + 10 * 8 + 7 * 8;

using Progress = int (*)(void *state, void *args);

thread_local ProgressThread *progress_thread = nullptr;

} // namespace

ProgressThread::ProgressThread(ddlemu_actor *actor) : actor_(actor) { progress_thread = this; }

ProgressThread::~ProgressThread()
{
	end_polling();
	progress_thread = nullptr;
}

// begin_pass reads the node's events before the next pass.
void ProgressThread::begin_pass()
{
	if (!polls_)
		ddlemuSoftBeginPolling();
	polls_ = true;
	seen_ = ddlemuSoftClock()->read(DDLEMU_EVENTS);
	fruitful_ = has_locked_ = false;
}

void ProgressThread::end_polling()
{
	if (polls_)
		ddlemuSoftEndPolling();
	polls_ = false;
}

void ProgressThread::yield()
{
	const bool woke = has_woken_ && !fruitful_;
	has_woken_ = false;
	if (woke)
		return;
	if (has_locked_)
		ddlemuSoftClock()->raise(DDLEMU_EVENTS); // it may have given back what a thread that posts waits for
	else if (polls_ && !ddlemuSoftPoll() && !fruitful_)
		ddlemuSoftClock()->idle(actor_, DDLEMU_EVENTS, seen_, ddlemuSoftNext());
	begin_pass();
}

void ProgressThread::wait(uint32_t seen)
{
	ddlemuSoftClock()->idle(actor_, DDLEMU_SIGNALS, seen, softexec::kNoTime);
	has_woken_ = true;
}

namespace {

// --- other actors

// give_core is sched_yield: the software CUDA's own is for what a program does outside of NCCL.
int give_core() { return static_cast<int>(syscall(SYS_sched_yield)); }

// A thread yields while it waits for space in a queue of NCCL, which may need virtual time. It also yields now and then
// when it does not wait, so only many yields without any act count.
constexpr unsigned kYields = 64;

void yield_actor(ddlemu_actor *actor)
{
	thread_local unsigned yields = 0;
	thread_local uint32_t seen = 0;
	const ddlemu_clock_calls *clock = ddlemuSoftClock();
	const uint32_t events = clock->read(DDLEMU_EVENTS);
	if (yields == 0 || events != seen) {
		yields = 0;
		seen = events;
	}
	if (++yields < kYields)
		give_core();
	else
		ddlemuSoftIdle(actor, DDLEMU_EVENTS, seen);
}

// --- what makes progress

Progress originals[2];

template <int I>
int wrapped_progress(void *state, void *args)
{
	trim_pool();
	const int result = originals[I](state, args);
	if (progress_thread && *reinterpret_cast<int *>(static_cast<char *>(args) + kIdle) == 0) {
		progress_thread->did_something();
		ddlemuSoftClock()->raise(DDLEMU_EVENTS);
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

// The progress thread waits for operations with the mutex that whoever posts one holds. It may wake up early: NCCL
// looks again. Operations are posted with the mutex held and signaled after that, so the number is read in time.
template <class Unlock, class Lock>
void wait_as_progress(Unlock unlock, Lock lock)
{
	progress_thread->end_polling();
	const uint32_t seen = ddlemuSoftClock()->read(DDLEMU_SIGNALS);
	unlock();
	progress_thread->wait(seen);
	lock();
	progress_thread->locked();
}

} // namespace
} // namespace shim

using namespace shim;

extern "C" {

int __wrap_sched_yield(void)
{
	if (progress_thread)
		progress_thread->yield();
	else if (ddlemu_actor *actor = ddlemuSoftActor())
		yield_actor(actor);
	else
		return give_core();
	return 0;
}

// The progress thread takes new operations only if nobody else has the mutex. Whoever has it has signaled already that
// there are some, so a pass that could not look is not fruitless.
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	const int result = __real_pthread_mutex_trylock(mutex);
	if (progress_thread && result == 0)
		progress_thread->locked();
	else if (progress_thread)
		progress_thread->did_something();
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

#define ALLGATHER "_Z18ncclShmemAllgatherP8ncclCommP17ncclShmemCollBuffPvS3_m"

int real_allgather(void *, void *, void *, void *, size_t) __asm__("__real_" ALLGATHER);
int wrap_allgather(void *, void *, void *, void *, size_t) __asm__("__wrap_" ALLGATHER);

// The ranks of a node exchange a few bytes by shared memory, before each call that may use NVLS. The last one to come
// releases the others with a store, and those that have yielded for long are idle. They look again before the clock
// moves.
int wrap_allgather(void *comm, void *memory, void *send, void *receive, size_t size)
{
	const int result = real_allgather(comm, memory, send, receive, size);
	if (const ddlemu_clock_calls *clock = ddlemuSoftClock())
		clock->raise(DDLEMU_EVENTS);
	return result;
}

int wrap_register(void *, const void *, void *, size_t, size_t, int *used, void **, void **) __asm__(
	"__wrap__Z27ncclNvlsLocalRegisterBufferP8ncclCommPKvPvmmPiPS3_S5_");

// NCCL 2.29 exchanges them only for buffers that the program has registered, and does not yield meanwhile: the clock
// would not move. The software CUDA has no registered buffers for NVLS, so there is nothing to exchange.
int wrap_register(void *, const void *, void *, size_t, size_t, int *used, void **, void **) { return *used = 0; }

#define COND "_ZNSt18condition_variable"

void real_cond_wait(std::condition_variable *, std::unique_lock<std::mutex> *) __asm__(
	"__real_" COND "4waitERSt11unique_lockISt5mutexE");
void wrap_cond_wait(std::condition_variable *, std::unique_lock<std::mutex> *) __asm__(
	"__wrap_" COND "4waitERSt11unique_lockISt5mutexE");
void real_notify_one(std::condition_variable *) __asm__("__real_" COND "10notify_oneEv");
void wrap_notify_one(std::condition_variable *) __asm__("__wrap_" COND "10notify_oneEv");
void real_notify_all(std::condition_variable *) __asm__("__real_" COND "10notify_allEv");
void wrap_notify_all(std::condition_variable *) __asm__("__wrap_" COND "10notify_allEv");

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

} // extern "C"
