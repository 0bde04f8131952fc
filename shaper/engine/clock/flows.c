// SPDX-License-Identifier: Apache-2.0
//
// The order in which flows make their steps. Posts are taken in the order of their flows, not in that of the processes
// that made them; steps in the order of their times, and at equal times in that of their flows. So a run is the same
// each time.

#include "clock.h"

#include <stdlib.h>

#include "delay.h"

// --- the heap: the flow with the earliest next step is at its top

static bool is_before(struct ddlemu_clock_flows *f, struct ddlemu_heap_entry a, struct ddlemu_heap_entry b)
{
	if (a.next != b.next)
		return a.next < b.next;
	return f->flow[a.flow].order < f->flow[b.flow].order;
}

static void put_at(struct ddlemu_clock_flows *f, uint32_t place, struct ddlemu_heap_entry e)
{
	f->heap[place] = e;
	f->flow[e.flow].place = place + 1;
}

// sift moves entry e, which belongs at place or above or below it, to where it belongs.
static void sift(struct ddlemu_clock_flows *f, uint32_t place, struct ddlemu_heap_entry e)
{
	struct ddlemu_heap_entry *heap = f->heap;
	for (; place > 0 && is_before(f, e, heap[(place - 1) / 2]); place = (place - 1) / 2)
		put_at(f, place, heap[(place - 1) / 2]);
	for (;;) {
		uint32_t child = 2 * place + 1;
		if (child + 1 < f->heap_size && is_before(f, heap[child + 1], heap[child]))
			child++;
		if (child >= f->heap_size || !is_before(f, heap[child], e))
			break;
		put_at(f, place, heap[child]);
		place = child;
	}
	put_at(f, place, e);
}

// unschedule removes a flow from the heap.
static void unschedule(struct ddlemu_clock_flows *f, struct ddlemu_clock_flow *x)
{
	if (x->place == 0)
		return;
	uint32_t place = x->place - 1;
	struct ddlemu_heap_entry last = f->heap[--f->heap_size];
	x->place = 0;
	if (place < f->heap_size)
		sift(f, place, last);
}

// schedule puts a flow where its next step belongs.
static void schedule(struct ddlemu_clock_flows *f, struct ddlemu_clock_flow *x, int64_t next)
{
	if (next == DDLEMU_NEVER) {
		unschedule(f, x);
		return;
	}
	if (x->place == 0)
		x->place = ++f->heap_size;
	sift(f, x->place - 1, (struct ddlemu_heap_entry){ .next = next, .flow = clock_flow_number(f, x) });
}

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

static int compare_order(const void *a, const void *b)
{
	uint64_t x = (*(struct ddlemu_clock_flow *const *)a)->order, y = (*(struct ddlemu_clock_flow *const *)b)->order;
	return (x > y) - (x < y);
}

// take_posted returns the flows with posts, in their order.
static uint32_t take_posted(struct ddlemu_clock_view *v, struct ddlemu_clock_flow **out)
{
	uint32_t n = 0;
	for (uint32_t i = __atomic_exchange_n(&v->flows->first_posted, 0, __ATOMIC_SEQ_CST);
		i != 0 && i <= DDLEMU_CLOCK_FLOWS && n < DDLEMU_CLOCK_FLOWS;) {
		struct ddlemu_clock_flow *x = &v->flows->flow[i - 1];
		i = x->next_posted;
		__atomic_store_n(&x->posted, 0, __ATOMIC_SEQ_CST); // before its posts are read
		clock_delay();
		out[n++] = x;
	}
	qsort(out, n, sizeof *out, compare_order);
	return n;
}

// take_all returns all flows, in their order, and removes them from the list and from the heap: whoever died while it
// ran the clock may have left both half changed. The flow whose steps it was making is broken. Every other one is
// whole, but what it has posted may be in no list any more. No actor works now, so nobody is about to enter a flow.
static uint32_t take_all(struct ddlemu_clock_view *v, struct ddlemu_clock_flow **out)
{
	struct ddlemu_clock_flows *f = v->flows;
	uint32_t stepping = v->clock->stepping, n = 0;
	if (stepping != 0 && stepping <= DDLEMU_CLOCK_FLOWS)
		__atomic_store_n(&f->flow[stepping - 1].flow.broken, DDLEMU_INTERRUPTED, __ATOMIC_RELEASE);
	__atomic_store_n(&v->clock->stepping, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&f->first_posted, 0, __ATOMIC_SEQ_CST);
	f->heap_size = 0;
	for (uint32_t i = 0; i < DDLEMU_CLOCK_FLOWS; i++) {
		if (!clock_flow_is_made(f, i))
			continue;
		f->flow[i].place = 0;
		__atomic_store_n(&f->flow[i].posted, 0, __ATOMIC_SEQ_CST);
		out[n++] = &f->flow[i];
	}
	qsort(out, n, sizeof *out, compare_order);
	return n;
}

// --- steps

// free_closed frees a flow that both ends have closed: nothing of it is left to see.
static bool free_closed(struct ddlemu_clock_flows *f, struct ddlemu_clock_flow *x)
{
	if (__atomic_load_n(&x->flow.sender_closed, __ATOMIC_ACQUIRE) == 0 ||
		__atomic_load_n(&x->flow.receiver_closed, __ATOMIC_ACQUIRE) == 0)
		return false;
	unschedule(f, x);
	__atomic_store_n(&f->in_use[clock_flow_number(f, x)], DDLEMU_FLOW_FREE, __ATOMIC_RELEASE);
	return true;
}

// has_path says whether the flow's path is one of the fabric: the memory is shared, and its numbers select what the
// engine writes.
static bool has_path(struct ddlemu_clock_view *v, const struct ddlemu_path *p)
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

// receiver_sees says whether the receiver has something to see at time now that it has not seen.
static bool receiver_sees(struct ddlemu_clock_flow *x, int64_t now)
{
	struct ddlemu_flow *f = &x->flow;
	bool sees = f->results.arrived != x->arrived_seen;
	x->arrived_seen = f->results.arrived;
	for (; x->due_seen < f->results.due_count && times_at(f, x->due_seen)->due <= now; x->due_seen++)
		sees = true;
	return sees || __atomic_load_n(&x->receiver_waits, __ATOMIC_SEQ_CST) != 0;
}

static bool sender_sees(struct ddlemu_clock_flow *x, int64_t now)
{
	struct ddlemu_flow *f = &x->flow;
	bool sees = false;
	for (; x->complete_seen < f->results.complete_count && times_at(f, x->complete_seen)->complete <= now;
		x->complete_seen++)
		sees = true;
	return sees || __atomic_load_n(&x->sender_waits, __ATOMIC_SEQ_CST) != 0;
}

// next_of is when the flow, or one of its ends, has something to do.
static int64_t next_of(struct ddlemu_clock_flow *x, int64_t now)
{
	struct ddlemu_flow *f = &x->flow;
	int64_t next = f->results.next;
	if (x->due_seen < f->results.due_count)
		next = min64(next, times_at(f, x->due_seen)->due);
	if (x->complete_seen < f->results.complete_count)
		next = min64(next, times_at(f, x->complete_seen)->complete);
	return max64(next, now + 1); // what is to be done by now was done
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

// advance makes the steps of a flow. If this process dies meanwhile, take_all finds which flow it was.
static void advance(
	struct ddlemu_clock_view *v, struct ddlemu_engine *e, const struct ddlemu_clock_flow *x, int64_t now)
{
	__atomic_store_n(&v->clock->stepping, clock_flow_number(v->flows, x) + 1, __ATOMIC_RELEASE);
	flow_advance(e, now);
	clock_death();
	__atomic_store_n(&v->clock->stepping, 0, __ATOMIC_RELEASE);
}

// step makes the steps of one flow up to now, with at most one more of its posts. It returns true if there are others.
static bool step(struct ddlemu_clock_view *v, struct ddlemu_clock_flow *x, int64_t now, struct woken *w)
{
	v->clock->steps++;
	if (free_closed(v->flows, x))
		return false;
	if (x->flow.broken == DDLEMU_INTERRUPTED) { // its state is that of the middle of a step
		wake(w, x->receiver_node);
		wake(w, x->sender_node);
		return false;
	}
	struct ddlemu_engine *e = &v->engine;
	e->flow = &x->flow;
	e->path = read_path(&x->flow.path); // a copy: it cannot change after has_path
	e->posts_at_once = 1;
	if (!has_path(v, &e->path)) {
		__atomic_store_n(&x->flow.broken, DDLEMU_CORRUPT, __ATOMIC_RELEASE);
		return false;
	}
	advance(v, e, x, now);
	bool broken = x->flow.broken != 0;
	if (receiver_sees(x, now) || broken)
		wake(w, x->receiver_node);
	if (sender_sees(x, now) || broken)
		wake(w, x->sender_node);
	schedule(v->flows, x, broken ? DDLEMU_NEVER : next_of(x, now));
	return !broken && x->flow.known < load64(&x->flow.posted);
}

// read_posts makes n flows read what was posted at time now. NCCL's progress thread posts one message of each
// connection in turn, so the first messages of all flows come first, then the second ones.
static void read_posts(
	struct ddlemu_clock_view *v, struct ddlemu_clock_flow **posted, uint32_t n, int64_t now, struct woken *w)
{
	for (uint32_t left; n > 0; n = left) {
		left = 0;
		for (uint32_t i = 0; i < n; i++)
			if (step(v, posted[i], now, w))
				posted[left++] = posted[i];
	}
}

enum ddlemu_clock_result ddlemu_flows_run(struct ddlemu_clock_view *v, int64_t latest)
{
	// Only one thread at a time has the baton, but processes have memory of their own.
	static struct ddlemu_clock_flow *posted[DDLEMU_CLOCK_FLOWS];
	static struct woken w;
	struct ddlemu_clock *c = v->clock;
	int64_t now = c->now;
	if (c->interrupted) {
		read_posts(v, posted, take_all(v, posted), now, &w);
		c->repairs++;
		__atomic_store_n(&c->interrupted, 0, __ATOMIC_SEQ_CST);
	} else
		read_posts(v, posted, take_posted(v, posted), now, &w);
	while (v->flows->heap_size > 0) {
		struct ddlemu_heap_entry top = v->flows->heap[0];
		if (top.next > (w.any ? now : latest))
			break;
		now = max64(now, top.next);
		// Before the step: an end that looks meanwhile, because it has slept for long, must not see the future.
		__atomic_store_n(&c->now, now, __ATOMIC_RELEASE);
		clock_delay();
		step(v, &v->flows->flow[top.flow], now, &w);
	}
	if (!w.any)
		return DDLEMU_NOTHING_LEFT;
	w.any = false;
	for (uint32_t i = 0; i < c->nodes; i++) {
		if (w.node[i] == 0)
			continue;
		w.node[i] = 0;
		ddlemu_node_raise(v, i, DDLEMU_ACTS);
	}
	return DDLEMU_WOKE_NODES;
}
