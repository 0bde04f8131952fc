// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "clock.h"
#include "delay.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// --- participants

void ddlemu_participant_join(struct ddlemu_clock_view *v, uint32_t node)
{
	struct ddlemu_participant *p = &v->participants[v->participant];
	memset(p, 0, sizeof *p);
	p->node = v->node = node;
	p->actors = p->actor[0].used = p->actor[0].application = 1;
	memcpy(p->actor[0].name, "application", sizeof "application");
	p->actor[0].thread = (uint32_t)getpid();
	__atomic_store_n(&p->on, 1, __ATOMIC_SEQ_CST);
}

// place_clock returns a view without flows, for callers that only look at the participants.
static struct ddlemu_clock_view place_clock(void *clock)
{
	struct ddlemu_clock_view v = { 0 };
	ddlemu_clock_place(&v, clock, NULL);
	return v;
}

static void raise_all(struct ddlemu_clock_view *v)
{
	for (uint32_t i = 0; i < v->clock->nodes; i++)
		ddlemu_node_raise(v, i, DDLEMU_SIGNALS);
}

void ddlemu_participant_left(void *clock, uint32_t participant)
{
	struct ddlemu_clock_view v = place_clock(clock);
	__atomic_store_n(&v.participants[participant].on, 0, __ATOMIC_SEQ_CST);
	// Perhaps only this participant kept the clock from moving: all others look again, and the last one runs it.
	raise_all(&v);
}

void ddlemu_participant_died(void *clock, uint32_t participant)
{
	struct ddlemu_clock_view v = place_clock(clock);
	if (__atomic_load_n(&v.clock->token, __ATOMIC_SEQ_CST) == participant + 1) {
		__atomic_store_n(&v.clock->interrupted, 1, __ATOMIC_SEQ_CST);
		// It may have had effects and not have raised the numbers of the actors that must see them. No idle
		// state of before holds when somebody else takes the token.
		raise_all(&v);
		__atomic_store_n(&v.clock->token, 0, __ATOMIC_SEQ_CST);
	}
	ddlemu_participant_left(clock, participant);
}

// --- actors

struct ddlemu_actor *ddlemu_actor_enter(struct ddlemu_clock_view *v, const char *name, bool application)
{
	struct ddlemu_participant *p = &v->participants[v->participant];
	for (uint32_t i = 1; i < DDLEMU_CLOCK_ACTORS; i++) {
		struct ddlemu_actor *a = &p->actor[i];
		uint32_t free = 0;
		if (!__atomic_compare_exchange_n(&a->used, &free, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		strncpy(a->name, name, sizeof a->name - 1);
		a->application = application;
		a->thread = (uint32_t)syscall(SYS_gettid);
		uint32_t n = __atomic_load_n(&p->actors, __ATOMIC_SEQ_CST);
		while (n <= i &&
			!__atomic_compare_exchange_n(&p->actors, &n, i + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
			;
		return a;
	}
	return NULL;
}

// Leaving may leave only idle actors behind, so it may be the last thing that the clock waited for.
void ddlemu_actor_leave(struct ddlemu_clock_view *v, struct ddlemu_actor *a)
{
	__atomic_store_n(&a->state, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&a->used, 0, __ATOMIC_SEQ_CST);
	ddlemu_clock_run(v);
}

static void set_idle(struct ddlemu_clock_view *v, struct ddlemu_actor *a, enum ddlemu_clock_number number,
	uint32_t seen, int64_t until)
{
	clock_delay();
	__atomic_store_n(&a->until, until, __ATOMIC_RELAXED); // the store of the state makes it visible
	clock_delay();
	__atomic_store_n(&a->state, DDLEMU_IDLE | (uint64_t)number << 32 | seen, __ATOMIC_SEQ_CST);
	if (number_read(number_of(v, v->node, number)) == seen)
		ddlemu_clock_run(v);
}

void ddlemu_actor_set_idle(
	struct ddlemu_clock_view *v, struct ddlemu_actor *a, enum ddlemu_clock_number number, uint32_t seen)
{
	set_idle(v, a, number, seen, DDLEMU_NEVER);
}

void ddlemu_actor_idle(
	struct ddlemu_clock_view *v, struct ddlemu_actor *a, enum ddlemu_clock_number number, uint32_t seen, int64_t t)
{
	struct ddlemu_number *n = number_of(v, v->node, number);
	set_idle(v, a, number, seen, t);
	// Whoever moves the clock to t raises the node's numbers after that.
	if (number_read(n) == seen)
		ddlemu_number_sleep(n, seen, DDLEMU_CLOCK_SLEEP);
	clock_delay();
	__atomic_store_n(&a->state, 0, __ATOMIC_SEQ_CST);
	clock_delay();
}

void ddlemu_actor_sleep_until(struct ddlemu_clock_view *v, struct ddlemu_actor *a, int64_t t)
{
	for (;;) {
		uint32_t seen = number_read(number_of(v, v->node, DDLEMU_SIGNALS));
		if (clock_read(v->clock) >= t)
			return;
		ddlemu_actor_idle(v, a, DDLEMU_SIGNALS, seen, t);
	}
}

void ddlemu_actor_settle(struct ddlemu_clock_view *v, struct ddlemu_actor *a)
{
	for (uint32_t seen = number_read(&v->clock->settled); number_read(&v->clock->settled) == seen;)
		ddlemu_actor_idle(v, a, DDLEMU_SETTLE, seen, DDLEMU_NEVER);
}
