// SPDX-License-Identifier: Apache-2.0

#include "clock.h"

#include <time.h>

#include "delay.h"

#define VALUE(state) ((uint32_t)(state))
#define NUMBER(state) ((uint32_t)((state) >> 32) & 0x7fffffff)

// until_of is the virtual time until which an actor that is idle is so.
static int64_t until_of(const struct ddlemu_actor *a) { return __atomic_load_n(&a->until, __ATOMIC_RELAXED); }

// is_idle says whether an actor is still idle by its state. A slot without an actor is idle.
static bool is_idle(struct ddlemu_clock_view *v, uint32_t node, struct ddlemu_actor *a, uint64_t state)
{
	if (state == 0)
		return __atomic_load_n(&a->used, __ATOMIC_SEQ_CST) == 0;
	return clock_read(v->clock) < until_of(a) && number_read(number_of(v, node, NUMBER(state))) == VALUE(state);
}

// What a scan of all actors has found.
struct scan {
	bool idle; // every actor was idle when the scan came to it
	bool settling; // one of them waits until nothing is left to happen
	bool waiting; // a thread of an application waits in a call
	bool sleeping; // one sleeps outside of our calls
	int64_t timer; // when the first one that waits for a time goes on; DDLEMU_NEVER: there is none
	uint64_t states; // a hash of their states
};

// see notes what an idle actor waits for.
static void see(struct scan *s, const struct ddlemu_actor *a, uint64_t state)
{
	if (state == 0)
		return;
	s->settling |= NUMBER(state) == DDLEMU_SETTLE;
	s->sleeping |= NUMBER(state) == DDLEMU_HANDOVERS;
	s->timer = min64(s->timer, until_of(a));
	s->waiting |= NUMBER(state) < DDLEMU_NODE_NUMBERS && a->application != 0;
}

// scan looks at one actor after another, so one that it has found idle may work before it has come to the last one.
// Only if two scans find the same states, all actors were idle at the moment between the two: an actor that has had an
// effect meanwhile, or has seen one, has another state. test/clockmodel checks that.
static struct scan scan(struct ddlemu_clock_view *v)
{
	struct scan s = { .timer = DDLEMU_NEVER, .states = 14695981039346656037ull }; // FNV-1a, by words
	for (uint32_t i = 0; i < v->clock->participants; i++) {
		struct ddlemu_participant *p = &v->participants[i];
		if (__atomic_load_n(&p->on, __ATOMIC_SEQ_CST) == 0)
			continue;
		for (uint32_t k = 0, n = __atomic_load_n(&p->actors, __ATOMIC_SEQ_CST); k < n; k++) {
			uint64_t state = __atomic_load_n(&p->actor[k].state, __ATOMIC_SEQ_CST);
			if (!is_idle(v, p->node, &p->actor[k], state))
				return s;
			clock_delay();
			see(&s, &p->actor[k], state);
			uint64_t until = state == 0 ? 0 : (uint64_t)until_of(&p->actor[k]);
			s.states = (s.states ^ state ^ until ^ (uint64_t)i << 40) * 1099511628211ull;
		}
	}
	s.idle = true;
	return s;
}

static void release_token(struct ddlemu_clock_view *v) { __atomic_store_n(&v->clock->token, 0, __ATOMIC_SEQ_CST); }

// take_token says whether this process may run the clock now. A process that leaves does not begin to: it may end in
// the middle. Either this sees that it leaves, or ddlemu_clock_leave sees that it has the token.
static bool take_token(struct ddlemu_clock_view *v)
{
	uint32_t nobody = 0;
	if (!__atomic_compare_exchange_n(
		    &v->clock->token, &nobody, v->participant + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		return false;
	if (__atomic_load_n(&v->participants[v->participant].on, __ATOMIC_SEQ_CST) != 0)
		return true;
	release_token(v);
	return false;
}

static int64_t real_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// stuck is called when nothing is left to happen and nobody waits for that. It is a deadlock if threads of applications
// wait in calls, and none sleeps elsewhere: no thread that we know of can end it. A thread that we do not know may be
// about to, for example when a process ends, so it is one only if all states stay the same for a second of real time.
static void stuck(struct ddlemu_clock_view *v, struct scan s)
{
	struct ddlemu_clock *c = v->clock;
	c->stuck++;
	if (!s.waiting || s.sleeping || v->waits_on_deadlock || c->deadlocked)
		return;
	if (c->stuck_since == 0 || c->stuck_states != s.states) {
		c->stuck_since = real_now();
		c->stuck_states = s.states;
	}
	if (real_now() - c->stuck_since < DDLEMU_CLOCK_PATIENCE)
		return;
	ddlemu_report_deadlock(v);
	__atomic_store_n(&c->deadlocked, 1, __ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < c->nodes; i++)
		ddlemu_node_raise(v, i, DDLEMU_SIGNALS);
}

// wake_timers wakes those whose timers are due.
static void wake_timers(struct ddlemu_clock_view *v)
{
	const int64_t now = clock_read(v->clock);
	for (uint32_t i = 0; i < v->clock->participants; i++) {
		struct ddlemu_participant *p = &v->participants[i];
		bool due = false;
		for (uint32_t k = 0; p->on != 0 && k < p->actors; k++) {
			uint64_t state = __atomic_load_n(&p->actor[k].state, __ATOMIC_SEQ_CST);
			due |= state != 0 && until_of(&p->actor[k]) <= now;
		}
		if (due)
			ddlemu_node_raise(v, p->node, DDLEMU_SIGNALS);
	}
}

// run runs the clock once, and says whether anything happened.
static bool run(struct ddlemu_clock_view *v, struct scan s)
{
	v->clock->rounds++;
	const struct ddlemu_clock_result r = ddlemu_flows_run(v, s.timer);
	if (r.timer)
		wake_timers(v);
	if (r.woke || r.timer) {
		v->clock->stuck_since = 0;
		return true;
	}
	// Who sleeps outside of our calls may yet act.
	const bool settled = s.settling && !s.sleeping;
	if (settled)
		ddlemu_number_raise(&v->clock->settled);
	else
		stuck(v, s);
	return settled;
}

static bool has_posts(struct ddlemu_clock_view *v)
{
	return __atomic_load_n(&v->flows->first_posted, __ATOMIC_SEQ_CST) != 0;
}

void ddlemu_clock_run(struct ddlemu_clock_view *v)
{
	for (struct scan first = scan(v); first.idle && take_token(v); first = scan(v)) {
		struct scan second = scan(v);
		bool idle = second.idle && second.states == first.states;
		clock_delay();
		bool happened = idle && run(v, second);
		clock_delay();
		release_token(v);
		clock_delay();
		// While this thread had the token, the last one that worked may have become idle, and have found the
		// token taken. So this thread looks again, unless nothing at all is left to happen.
		if (idle && !happened && !has_posts(v))
			return;
	}
}
