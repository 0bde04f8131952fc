// SPDX-License-Identifier: Apache-2.0
//
// The flows of a clock: which of them have posts, what their ends have to see, and the repair after a death. The event
// loop (sim.h) makes their steps.

#include "clock.h"

#include <time.h>

#include "../link/parameters.h"
#include "delay.h"

// --- posts

void ddlemu_flow_posted(struct ddlemu_clock_view *v, struct ddlemu_clock_flow *x)
{
	clock_delay();
	if (__atomic_exchange_n(&x->posted, 1, __ATOMIC_SEQ_CST) != 0)
		return;
	clock_delay();
	uint32_t first = __atomic_load_n(&v->flows->first_posted, __ATOMIC_RELAXED);
	do
		x->next_posted = first;
	while (!__atomic_compare_exchange_n(&v->flows->first_posted, &first, clock_flow_number(v->flows, x) + 1, false,
		__ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

// take_posted gives the loop the flows with posts.
static void take_posted(struct ddlemu_clock_view *v, struct ddlemu_sim *s)
{
	for (uint32_t i = __atomic_exchange_n(&v->flows->first_posted, 0, __ATOMIC_SEQ_CST);
		i != 0 && i <= DDLEMU_CLOCK_FLOWS && s->posts < DDLEMU_CLOCK_FLOWS;) {
		struct ddlemu_clock_flow *x = &v->flows->flow[i - 1];
		uint32_t number = i - 1;
		i = x->next_posted;
		__atomic_store_n(&x->posted, 0, __ATOMIC_SEQ_CST); // before its posts are read
		clock_delay();
		ddlemu_sim_posted(s, number);
	}
}

// take_all gives the loop all flows, and removes them from the list and from the heap: whoever died while it ran the
// clock may have left both half changed. The flow whose steps it was making is broken. Every other one is whole, but
// what it has posted may be in no list any more. No actor works now, so nobody is about to enter a flow.
static void take_all(struct ddlemu_clock_view *v, struct ddlemu_sim *s)
{
	struct ddlemu_clock_flows *f = v->flows;
	uint32_t stepping = v->clock->stepping;
	if (stepping != 0 && stepping <= DDLEMU_CLOCK_FLOWS)
		__atomic_store_n(&f->flow[stepping - 1].flow.broken, DDLEMU_INTERRUPTED, __ATOMIC_RELEASE);
	__atomic_store_n(&v->clock->stepping, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&f->first_posted, 0, __ATOMIC_SEQ_CST);
	f->heap_size = 0;
	for (uint32_t i = 0; i < DDLEMU_CLOCK_FLOWS; i++) {
		if (!clock_flow_is_made(f, i))
			continue;
		f->flow[i].sim.place = f->flow[i].sim.posted = 0;
		__atomic_store_n(&f->flow[i].posted, 0, __ATOMIC_SEQ_CST);
		ddlemu_sim_posted(s, i);
	}
}

// --- steps

// free_closed frees a flow that both ends have closed: nothing of it is left to see.
static bool free_closed(struct ddlemu_clock_flows *f, const struct ddlemu_clock_flow *x)
{
	if (__atomic_load_n(&x->flow.sender_closed, __ATOMIC_ACQUIRE) == 0 ||
		__atomic_load_n(&x->flow.receiver_closed, __ATOMIC_ACQUIRE) == 0)
		return false;
	__atomic_store_n(&f->in_use[clock_flow_number(f, x)], DDLEMU_FLOW_FREE, __ATOMIC_RELEASE);
	return true;
}

bool ddlemu_has_path(const struct ddlemu_clock_view *v, const struct ddlemu_path *p)
{
	if (p->n == 0 || p->n > DDLEMU_MAX_HOPS || p->reverse_n > DDLEMU_MAX_HOPS)
		return false;
	for (uint32_t i = 0; i < p->n; i++)
		if (p->hop[i] >= v->hops)
			return false;
	for (uint32_t i = 0; i < p->reverse_n; i++)
		if (p->reverse[i] >= v->hops)
			return false;
	return true;
}

// The nodes that have something to see.
struct woken {
	bool any;
	uint8_t node[1 << 16];
};

static void wake(struct woken *w, uint32_t node)
{
	w->any = true;
	w->node[node & 0xffff] = 1;
}

// One run of the loop on the flows of a clock.
struct run {
	struct ddlemu_sim sim; // first: the loop hands it to advance and note
	struct ddlemu_clock_view *v;
	struct woken *w;
};

// wake_both wakes the ends of a broken flow.
static void wake_both(struct run *r, const struct ddlemu_clock_flow *x)
{
	wake(r->w, x->receiver_node);
	wake(r->w, x->sender_node);
	r->sim.seen = true;
}

// advance makes the steps of a flow. If this process dies meanwhile, take_all finds which flow it was.
static struct ddlemu_flow *advance(struct ddlemu_sim *s, uint32_t i)
{
	struct run *r = (struct run *)s;
	struct ddlemu_clock_view *v = r->v;
	struct ddlemu_clock_flow *x = &v->flows->flow[i];
	v->clock->steps++;
	if (s->now != v->clock->now) {
		// Before the step: an end that looks meanwhile, because it has slept for long, must not see the future.
		__atomic_store_n(&v->clock->now, s->now, __ATOMIC_RELEASE);
		clock_delay();
	}
	if (free_closed(v->flows, x))
		return NULL;
	if (x->flow.broken == DDLEMU_INTERRUPTED) { // its state is from the middle of a step
		wake_both(r, x);
		return NULL;
	}
	struct ddlemu_engine *e = &v->engine;
	e->flow = &x->flow;
	e->path = read_path(&x->flow.path); // a copy: it cannot change after the check
	e->posts_at_once = 1;
	if (!ddlemu_has_path(v, &e->path)) {
		__atomic_store_n(&x->flow.broken, DDLEMU_CORRUPT, __ATOMIC_RELEASE);
		wake_both(r, x);
		return NULL;
	}
	const struct ddlemu_transport *between = e->transport;
	if (x->direct)
		e->transport = &v->direct;
	__atomic_store_n(&v->clock->stepping, i + 1, __ATOMIC_RELEASE);
	flow_advance(e, s->now);
	e->transport = between;
	clock_death();
	__atomic_store_n(&v->clock->stepping, 0, __ATOMIC_RELEASE);
	return &x->flow;
}

// note wakes the nodes whose ends have something to see. An end that waits for space looks at every step.
static bool note(struct ddlemu_sim *s, uint32_t i, uint32_t happened)
{
	struct run *r = (struct run *)s;
	struct ddlemu_clock_flow *x = &r->v->flows->flow[i];
	if (x->direct) { // its receiver waits for whole messages, and its sender for nothing
		if ((happened & (DDLEMU_SIM_DUE | DDLEMU_SIM_BROKEN)) == 0)
			return false;
		wake(r->w, x->receiver_node);
		return true;
	}
	bool receiver = happened & (DDLEMU_SIM_ARRIVED | DDLEMU_SIM_DUE | DDLEMU_SIM_BROKEN);
	bool sender = happened & (DDLEMU_SIM_COMPLETE | DDLEMU_SIM_BROKEN);
	receiver |= __atomic_load_n(&x->receiver_waits, __ATOMIC_SEQ_CST) != 0;
	sender |= __atomic_load_n(&x->sender_waits, __ATOMIC_SEQ_CST) != 0;
	if (receiver)
		wake(r->w, x->receiver_node);
	if (sender)
		wake(r->w, x->sender_node);
	return receiver || sender;
}

static const struct ddlemu_sim_driver driver = { .advance = advance, .note = note };

// break_first removes the first entry, which is earlier than now, and breaks its flow. Only memory that somebody else
// has written has one.
static void break_first(struct run *r)
{
	uint32_t i = ddlemu_sim_drop_first(&r->sim);
	if (i == DDLEMU_SIM_NONE || i >= DDLEMU_CLOCK_FLOWS)
		return;
	struct ddlemu_clock_flow *x = &r->v->flows->flow[i];
	__atomic_store_n(&x->flow.broken, DDLEMU_CORRUPT, __ATOMIC_RELEASE);
	wake_both(r, x);
}

// add_change adds the next planned change to the queue. One of the past is made now.
static void add_change(struct run *r)
{
	const struct ddlemu_clock_view *v = r->v;
	const uint32_t next = v->clock->planned_made;
	if (next < v->planned_count)
		ddlemu_sim_add(&r->sim,
			(struct ddlemu_sim_entry){ .time = max64(v->planned[next].time, r->sim.now),
				.class = DDLEMU_SIM_CHANGE,
				.index = next });
}

// make_change puts the change for which the loop has stopped in force. If this process dies before it is counted, the
// next one makes it again.
static void make_change(struct run *r)
{
	const struct ddlemu_clock_view *v = r->v;
	const struct ddlemu_planned_change p = v->planned[r->sim.changed];
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	if (p.hop < v->hops && p.block < v->blocks)
		put_in_force(&v->engine.hops[p.hop], v->block, v->blocks, p.block, r->sim.now,
			t.tv_sec * 1000000000ll + t.tv_nsec);
	__atomic_store_n(&v->clock->planned_made, r->sim.changed + 1, __ATOMIC_RELEASE);
	add_change(r);
}

// run_loop runs the event loop until it has a reason to stop. It says whether the timer is due.
static bool run_loop(struct run *r, int64_t timer)
{
	struct ddlemu_sim *s = &r->sim;
	if (timer != DDLEMU_NEVER)
		ddlemu_sim_add(s, (struct ddlemu_sim_entry){ .time = timer, .class = DDLEMU_SIM_TIMER });
	add_change(r);
	for (;;) {
		const enum ddlemu_sim_stop stop = ddlemu_sim_run(s, DDLEMU_NEVER);
		if (stop == DDLEMU_SIM_BACKWARD)
			break_first(r);
		else if (stop == DDLEMU_SIM_CHANGED)
			make_change(r);
		else
			break;
	}
	ddlemu_sim_remove(s, DDLEMU_SIM_CHANGE);
	const bool due = ddlemu_sim_take_timer(s) != DDLEMU_SIM_NONE;
	if (!due)
		ddlemu_sim_remove(s, DDLEMU_SIM_TIMER); // the next run has the timer of that time
	else
		__atomic_store_n(&r->v->clock->now, s->now, __ATOMIC_SEQ_CST);
	return due;
}

struct ddlemu_clock_result ddlemu_flows_run(struct ddlemu_clock_view *v, int64_t timer)
{
	static struct woken w; // only one thread at a time has the token, but processes have memory of their own
	struct ddlemu_clock *c = v->clock;
	struct run r = { .v = v, .w = &w };
	r.sim = (struct ddlemu_sim){ .now = c->now,
		.flows = &v->flows->flow[0].sim,
		.stride = sizeof v->flows->flow[0],
		.heap = v->flows->heap,
		.heap_size = &v->flows->heap_size,
		.driver = &driver };
	bool repairs = c->interrupted;
	if (repairs)
		take_all(v, &r.sim);
	else
		take_posted(v, &r.sim);
	struct ddlemu_clock_result result = { .timer = run_loop(&r, timer) };
	result.woke = w.any;
	if (repairs) {
		c->repairs++;
		__atomic_store_n(&c->interrupted, 0, __ATOMIC_SEQ_CST);
	}
	if (!w.any)
		return result;
	w.any = false;
	for (uint32_t i = 0; i < c->nodes; i++) {
		if (w.node[i] == 0)
			continue;
		w.node[i] = 0;
		ddlemu_node_raise(v, i, DDLEMU_EVENTS);
	}
	return result;
}
