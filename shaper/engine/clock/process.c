// SPDX-License-Identifier: Apache-2.0
//
// The part of this process in the clock of its fabric.

#include "clock.h"

#include <sched.h>

static struct ddlemu_clock_view view;
static const struct ddlemu_clock_calls *published; // NULL: not joined
static bool left;

static int64_t process_now(void) { return clock_read(view.clock); }

static struct ddlemu_actor *process_enter(const char *name, int application)
{
	return ddlemu_actor_enter(&view, name, application != 0);
}

static void process_leave(struct ddlemu_actor *a) { ddlemu_actor_leave(&view, a); }

static struct ddlemu_actor *process_application(void) { return ddlemu_actor_application(&view); }

static uint32_t process_read(enum ddlemu_clock_number number)
{
	return number_read(number_of(&view, view.node, number));
}

static void process_raise(enum ddlemu_clock_number number) { ddlemu_node_raise(&view, view.node, number); }

// has_left says whether this process has left the clock: its place may be another's by now. Threads that are left over
// while the process ends say nothing more.
static bool has_left(void) { return __atomic_load_n(&left, __ATOMIC_ACQUIRE); }

static void process_idle(struct ddlemu_actor *a, enum ddlemu_clock_number number, uint32_t seen, int64_t until)
{
	if (has_left())
		ddlemu_number_sleep(number_of(&view, view.node, number), seen, DDLEMU_CLOCK_SLEEP);
	else
		ddlemu_actor_idle(&view, a, number, seen, until);
}

static void process_sleep_until(struct ddlemu_actor *a, int64_t t)
{
	if (!has_left())
		ddlemu_actor_sleep_until(&view, a, t);
}

static void process_set_idle(struct ddlemu_actor *a, enum ddlemu_clock_number number, uint32_t seen)
{
	if (!has_left())
		ddlemu_actor_set_idle(&view, a, number, seen);
}

static void process_work(struct ddlemu_actor *a) { __atomic_store_n(&a->state, 0, __ATOMIC_SEQ_CST); }

static void process_sleep(enum ddlemu_clock_number number, uint32_t seen, int64_t ns)
{
	ddlemu_number_sleep(number_of(&view, view.node, number), seen, ns);
}

// The job learns it now: a process that is killed or calls _exit later does not leave.
static int process_give_up(void)
{
	if (has_left())
		return 0;
	__atomic_or_fetch(view.reasons, view.not_waited_for, __ATOMIC_SEQ_CST);
	return 1;
}

static int process_deadlocked(void) { return __atomic_load_n(&view.clock->deadlocked, __ATOMIC_SEQ_CST) != 0; }

static void process_settle(struct ddlemu_actor *a) { ddlemu_actor_settle(&view, a); }

#define NO_FLOW UINT64_MAX // a name that no flow has

static uint64_t process_direct_make(const struct ddlemu_direct_ends *ends)
{
	return has_left() ? NO_FLOW : ddlemu_direct_make(&view, ends);
}

static int process_direct_post(uint64_t flow, uint64_t bytes, int64_t written)
{
	return has_left() || ddlemu_direct_post(&view, flow, bytes, process_now(), written);
}

static uint64_t process_direct_arrived(uint64_t flow, uint64_t at_least)
{
	return has_left() ? at_least : ddlemu_direct_arrived(&view, flow, at_least, process_now());
}

static struct ddlemu_node_calls node_calls = {
	.version = DDLEMU_CLOCK_CALLS_VERSION,
	.now = process_now,
	.direct_make = process_direct_make,
	.direct_post = process_direct_post,
	.direct_arrived = process_direct_arrived,
};

static struct ddlemu_clock_calls calls = {
	.version = DDLEMU_CLOCK_CALLS_VERSION,
	.now = process_now,
	.enter = process_enter,
	.leave = process_leave,
	.application = process_application,
	.read = process_read,
	.raise = process_raise,
	.idle = process_idle,
	.sleep_until = process_sleep_until,
	.set_idle = process_set_idle,
	.work = process_work,
	.sleep = process_sleep,
	.give_up = process_give_up,
	.deadlocked = process_deadlocked,
	.settle = process_settle,
};

const struct ddlemu_clock_calls *ddlemu_clock_calls(struct ddlemu_clock_settings s)
{
	calls.compute = s.compute;
	calls.compute_hold = s.compute_hold;
	view.waits_on_deadlock = s.waits_on_deadlock;
	return __atomic_load_n(&published, __ATOMIC_ACQUIRE);
}

struct ddlemu_clock_view *ddlemu_clock_join(const struct ddlemu_clock_view *v)
{
	view = *v;
	view.direct = clock_direct_transport(view.engine.transport);
	node_calls.time = view.node_time;
	node_calls.rank = view.rank;
	node_calls.ranks = view.ranks;
	calls.node = view.node_time == NULL ? NULL : &node_calls;
	ddlemu_participant_join(&view, v->node);
	// Of a process that had this place before, and died. The clock waits for this one by now, so no flow is freed
	// and taken meanwhile.
	ddlemu_direct_close(&view, view.participant);
	__atomic_store_n(&published, &calls, __ATOMIC_RELEASE);
	return &view;
}

void ddlemu_clock_leave(struct ddlemu_clock_view *v)
{
	__atomic_store_n(&left, true, __ATOMIC_RELEASE);
	ddlemu_direct_close(v, v->participant);
	__atomic_store_n(&v->participants[v->participant].on, 0, __ATOMIC_SEQ_CST);
	// Another thread of this process may run the clock. It must finish before the process ends.
	while (__atomic_load_n(&v->clock->token, __ATOMIC_SEQ_CST) == v->participant + 1)
		sched_yield();
	ddlemu_participant_left(v->clock, v->participant);
}
