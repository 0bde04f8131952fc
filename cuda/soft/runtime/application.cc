// SPDX-License-Identifier: Apache-2.0
#include "application.h"

#include <ddlemu.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "../exec/cost.h"
#include "../exec/ledger.h"
#include "clock.h"
#include "error.h"
#include "sampler.h"
#include "stream.h"

namespace soft {

namespace {

struct ApplicationThreads {
	std::mutex mu;
	std::vector<ApplicationThread *> all;
};

ApplicationThreads &application_threads()
{
	static auto *threads = new ApplicationThreads; // never destroyed: threads may run until the process ends
	return *threads;
}

std::atomic<bool> has_exact{ false };
thread_local bool is_exact = false;
thread_local void (*helper_waits)(ddlemu_actor *) = nullptr; // of a helper

// The destructors of this thread's variables have run: it calls us no more as a thread of the application, but from the
// functions that end the process.
thread_local bool has_ended = false;

// Registered is this thread's place among the threads of the application, as long as it lives.
struct Registered {
	ApplicationThread *thread = nullptr;
	// What is made first is destroyed last: the thread's actor leaves when the sampler knows the thread no longer.
	Registered() { softexec::own_actor(); }
	~Registered()
	{
		if (!thread)
			return;
		ApplicationThreads &threads = application_threads();
		std::lock_guard<std::mutex> lock(threads.mu);
		threads.all.erase(std::find(threads.all.begin(), threads.all.end(), thread));
		delete thread;
		thread = nullptr;
		has_ended = true;
	}
};

thread_local Registered registered;

// enter_sampled has the sampler look at the calling thread while it is outside of our calls. The thread has its actor
// already: that leaves last, when this thread is registered no longer.
void enter_sampled(ddlemu_actor *actor)
{
	auto *thread = new ApplicationThread;
	thread->actor = actor;
	thread->id = gettid();
	thread->outside_since = real_ns();
	registered.thread = thread;
	{
		std::lock_guard<std::mutex> lock(application_threads().mu);
		application_threads().all.push_back(thread);
	}
	start_sampler();
}

// enter_application makes the calling thread one of the application.
ddlemu_actor *enter_application()
{
	char name[16] = "";
	prctl(PR_GET_NAME, name);
	ddlemu_actor *actor = softexec::thread_actor(name, true);
	enter_sampled(actor);
	return actor;
}

// forget_samples forgets what the sampler knows of a thread. With its mutex.
void forget_samples(ApplicationThread *t)
{
	t->idle = false;
	t->sleeps_since = 0;
	t->outside_since = real_ns();
}

void set_waits(ApplicationThread *t, bool waits)
{
	std::lock_guard<std::mutex> lock(t->mu);
	t->waits = waits;
	forget_samples(t);
}

// in_call runs wait, in which the calling thread waits, between leaving the sampler's sight and coming back to it.
// begins: the thread has been outside of our calls before.
template <class Wait>
void in_call(bool begins, Wait wait)
{
	ApplicationThread *t = registered.thread;
	if (t)
		set_waits(t, true);
	if (t && begins)
		softexec::virtual_clock()->raise(DDLEMU_HANDOVERS);
	wait();
	if (t)
		set_waits(t, false);
}

// work_for takes so many ns of virtual time, for which the calling thread works.
void work_for(ddlemu_actor *actor, int64_t ns)
{
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	in_call(true, [=] { clock->sleep_until(actor, clock->now() + ns); });
}

// works withdraws what the sampler has said about a thread that has run since.
void works(ApplicationThread *t)
{
	std::lock_guard<std::mutex> lock(t->mu);
	t->asks_socket = -1;
	t->yields_since = 0;
	t->sleeps_since = 0;
	if (!t->idle)
		return;
	forget_samples(t);
	softexec::virtual_clock()->work(t->actor);
}

constexpr unsigned kSocketPolls = 500; // about a quarter of a millisecond
constexpr int kSocketWait = 2; // ms, for each further one
// Ranks of an exact application connect at one virtual time, so a thread that asks a socket works. After so many
// further asks, half a second, it is idle: the other rank may need virtual time to get there.
constexpr unsigned kExactPolls = 250;
thread_local unsigned unanswered = 0; // asks of sockets, in a row

// Whoever ends a thread's poll does so before it waits itself, and raises HANDOVERS then. A poll that goes on has found
// nothing after so many yields since. An MPI may need several looks for one message.
constexpr unsigned kYields = 20;
constexpr useconds_t kYieldNap = 100; // us, for each further one: the cores are for those that work
thread_local unsigned yields = 0; // in a row, since HANDOVERS had this value:
thread_local uint32_t yields_handovers = 0;

} // namespace

ddlemu_actor *application_actor()
{
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	if (!clock || helper_waits || has_ended)
		return nullptr;
	if (is_exact)
		return clock->application();
	unanswered = yields = 0;
	if (registered.thread)
		works(registered.thread);
	if (ddlemu_actor *own = softexec::own_actor())
		return own;
	return has_exact ? nullptr : enter_application();
}

void forget_application()
{
	registered.thread = nullptr;
	softexec::forget_clock();
	softexec::ledger_table.store(nullptr); // it is the parent's
}

void for_each_application_thread(const std::function<void(ApplicationThread &)> &f)
{
	std::lock_guard<std::mutex> lock(application_threads().mu);
	for (ApplicationThread *t : application_threads().all)
		f(*t);
}

namespace {

// Less CPU time than this is not charged yet. A charge wakes the threads of this node, and so those that wait in a loop
// of looks: with a charge for each look they would never be idle.
constexpr int64_t kSmallestCharge = 20000; // ns; a look takes 1 to 2 us

thread_local int64_t charged = 0; // CPU time of this thread in ns until which it was charged; 0: not yet
thread_local int64_t computed = 0; // ns of virtual time

int64_t cpu_ns()
{
	timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

} // namespace

void application_charge()
{
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	if (!clock || clock->compute <= 0)
		return;
	ddlemu_actor *actor = application_actor();
	if (!actor || !registered.thread)
		return;
	if (charged == 0) { // what it had used before the clock was there is not charged
		charged = cpu_ns();
		return;
	}
	const int64_t used = cpu_ns() - charged;
	if (used < kSmallestCharge)
		return;
	application_compute(actor, static_cast<int64_t>(static_cast<double>(used) * clock->compute));
	charged = cpu_ns();
}

void application_idle(ddlemu_actor *actor, ddlemu_clock_number number, uint32_t seen, bool begins)
{
	if (begins)
		application_charge();
	const int64_t before = charged != 0 ? cpu_ns() : 0;
	in_call(begins, [=] { softexec::virtual_clock()->idle(actor, number, seen, softexec::kNoTime); });
	if (charged != 0)
		charged += cpu_ns() - before; // waiting is no computation
}

HelperWait::HelperWait()
{
	if (!helper_waits || !softexec::virtual_clock())
		return;
	actor_ = softexec::enter_actor("nccl-helper");
	helper_waits(actor_);
}

HelperWait::~HelperWait()
{
	if (!actor_)
		return;
	helper_waits(nullptr);
	// While this thread waited, the sampler may have taken the one as idle for which it works from here on without
	// an actor. That one is not idle any more, until the sampler has looked again, and has seen this one work.
	softexec::virtual_clock()->raise(DDLEMU_HANDOVERS);
	softexec::virtual_clock()->leave(actor_);
}

void application_call()
{
	const ddlemu_node_time *t = softexec::node_time();
	if (!t || t->call == 0)
		return;
	if (const ddlemu_node_calls *node = softexec::played_calls()) {
		const int64_t begun = node->now(), due = begun + t->call;
		const ddlemu_played what = { DDLEMU_LAUNCHES, 0, begun, 0, due, softexec::sleep_real_until(due) };
		node->played(&what);
		return;
	}
	HelperWait helper;
	ddlemu_actor *actor = helper.actor() ? helper.actor() : application_actor();
	if (actor)
		work_for(actor, t->call);
}

void application_compute(ddlemu_actor *actor, int64_t ns)
{
	computed += ns;
	work_for(actor, ns);
}

void application_asked_socket(int fd, bool answered)
{
	ApplicationThread *t = registered.thread;
	if (answered) {
		if (t && unanswered >= kSocketPolls)
			works(t);
		unanswered = 0;
		return;
	}
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	if (!clock || ++unanswered < kSocketPolls)
		return;
	if (t)
		t->asks_socket = fd;
	// The sampler does not look at an exact application, nor at its jobs.
	ddlemu_actor *exact = nullptr;
	if (!t && unanswered >= kSocketPolls + kExactPolls)
		exact = is_exact ? clock->application() : softexec::own_actor();
	if (exact)
		clock->set_idle(exact, DDLEMU_HANDOVERS, clock->read(DDLEMU_HANDOVERS));
	pollfd readable = { fd, POLLIN, 0 };
	poll(&readable, 1, kSocketWait);
	if (t)
		t->asks_socket = -1; // until the next ask was in vain: it may take the answer, and then lack a core
	if (exact)
		clock->work(exact);
}

void application_yielded()
{
	ApplicationThread *t = registered.thread;
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	if (!t || !clock)
		return;
	const uint32_t handovers = clock->read(DDLEMU_HANDOVERS);
	if (handovers != yields_handovers)
		yields = 0;
	yields_handovers = handovers;
	if (++yields < kYields)
		return;
	t->yields_since = 1 + static_cast<uint64_t>(handovers);
	usleep(kYieldNap);
}

void application_polled(uint32_t seen)
{
	thread_local bool polls = false;
	thread_local uint32_t last = 0;
	ddlemu_actor *actor = application_actor();
	if (actor && polls && last == seen)
		application_idle(actor, DDLEMU_SIGNALS, seen, true);
	polls = true;
	last = seen;
}

} // namespace soft

using namespace soft;

SOFT_API int ddlemuSoftSetClock(const struct ddlemu_clock_calls *calls)
{
	const ddlemu_clock_calls *none = nullptr;
	if (calls->version != DDLEMU_CLOCK_CALLS_VERSION || !softexec::clock_table.compare_exchange_strong(none, calls))
		return -1;
	softexec::node_table.store(calls->node);
	Stream::workers_join_clock();
	// The actor that stands for an exact application works until now. Else this thread, which is an actor from here
	// on, takes its place: it makes a communicator.
	if (!has_exact) {
		application_actor();
		calls->leave(calls->application());
	}
	return 0;
}

SOFT_API int ddlemuSoftSetNode(const struct ddlemu_node_calls *calls)
{
	const ddlemu_node_calls *none = nullptr;
	const bool is_set = calls->version == DDLEMU_CLOCK_CALLS_VERSION &&
		softexec::node_table.compare_exchange_strong(none, calls);
	return is_set ? 0 : -1;
}

SOFT_API int ddlemuSoftExact(void)
{
	bool no = false;
	if (!is_exact && !has_exact.compare_exchange_strong(no, true))
		return -1;
	is_exact = true;
	return 0;
}

SOFT_API void ddlemuSoftJob(struct ddlemu_actor *actor)
{
	softexec::adopt_actor(actor);
	if (actor && !has_exact)
		enter_sampled(actor);
}

SOFT_API void ddlemuSoftHelper(void (*waits)(struct ddlemu_actor *)) { helper_waits = waits; }

SOFT_API struct ddlemu_actor *ddlemuSoftActor(void) { return application_actor(); }

SOFT_API void ddlemuSoftIdle(struct ddlemu_actor *actor, enum ddlemu_clock_number number, uint32_t seen)
{
	application_idle(actor, number, seen, true);
}

SOFT_API void ddlemuSoftPolled(uint32_t seen) { application_polled(seen); }

SOFT_API void ddlemuSoftAskedSocket(int fd, int answered) { application_asked_socket(fd, answered != 0); }

// In place of glibc's, for all libraries of the program that find it here first.
SOFT_API int sched_yield(void)
{
	application_yielded();
	return static_cast<int>(syscall(SYS_sched_yield));
}

SOFT_API int ddlemu_compute(int64_t ns)
{
	ddlemu_actor *actor = application_actor();
	if (!actor)
		return -1;
	application_compute(actor, ns);
	return 0;
}

SOFT_API int64_t ddlemu_now(void)
{
	if (!application_actor())
		return -1;
	application_charge();
	return softexec::virtual_clock()->now();
}

SOFT_API int64_t ddlemu_computed(void) { return computed; }

SOFT_API uint32_t ddlemuSoftHandovers(void)
{
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	return clock ? clock->read(DDLEMU_HANDOVERS) : 0;
}

// A thread that has only looked since its last wait has woken nobody. If it said that it begins to wait, threads that
// wait in this way would wake each other for ever.
SOFT_API int ddlemuSoftAwaitHandover(uint32_t seen, int again)
{
	ddlemu_actor *actor = application_actor();
	if (!actor)
		return -1;
	application_idle(actor, DDLEMU_HANDOVERS, seen, again == 0);
	return 0;
}

SOFT_API int ddlemuSoftSettle(void)
{
	if (!softexec::virtual_clock() || !is_exact)
		return -1;
	softexec::virtual_clock()->settle(application_actor());
	return 0;
}
