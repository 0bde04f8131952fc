// SPDX-License-Identifier: Apache-2.0

#include "sim.h"

#include <stdlib.h>

#include "../link/arith.h"

// --- the heap

static bool is_before(struct ddlemu_sim_next a, struct ddlemu_sim_next b)
{
	if (a.time != b.time)
		return a.time < b.time;
	return a.tie != b.tie ? a.tie < b.tie : a.flow < b.flow;
}

static void put_at(struct ddlemu_sim *s, uint32_t place, struct ddlemu_sim_next x)
{
	s->heap[place] = x;
	sim_flow(s, x.flow)->place = place + 1;
}

// sift moves x, which belongs at place or above or below it, to where it belongs.
static void sift(struct ddlemu_sim *s, uint32_t place, struct ddlemu_sim_next x)
{
	struct ddlemu_sim_next *heap = s->heap;
	uint32_t size = *s->heap_size;
	for (; place > 0 && is_before(x, heap[(place - 1) / 2]); place = (place - 1) / 2)
		put_at(s, place, heap[(place - 1) / 2]);
	for (;;) {
		uint32_t child = 2 * place + 1;
		if (child + 1 < size && is_before(heap[child + 1], heap[child]))
			child++;
		if (child >= size || !is_before(heap[child], x))
			break;
		put_at(s, place, heap[child]);
		place = child;
	}
	put_at(s, place, x);
}

static void unschedule(struct ddlemu_sim *s, struct ddlemu_sim_flow *x)
{
	if (x->place == 0)
		return;
	uint32_t place = x->place - 1;
	struct ddlemu_sim_next last = s->heap[--*s->heap_size];
	x->place = 0;
	if (place < *s->heap_size)
		sift(s, place, last);
}

void ddlemu_sim_schedule(struct ddlemu_sim *s, uint32_t flow, int64_t time)
{
	struct ddlemu_sim_flow *x = sim_flow(s, flow);
	if (time == DDLEMU_NEVER) {
		unschedule(s, x);
		return;
	}
	if (x->place == 0)
		x->place = ++*s->heap_size;
	uint64_t tie = s->draws_ties ? draw(s->seed, 0, 0, x->order, (uint64_t)time) : x->order;
	sift(s, x->place - 1, (struct ddlemu_sim_next){ .time = time, .tie = tie, .flow = flow });
}

// --- one step

// take_events returns what the ends of a flow can see at time now and have not seen, and counts it as seen.
static uint32_t take_events(struct ddlemu_sim_flow *x, struct ddlemu_flow *f, int64_t now)
{
	uint32_t happened = 0;
	if (f->results.arrived != x->arrived_seen)
		happened |= DDLEMU_SIM_ARRIVED;
	x->arrived_seen = f->results.arrived;
	for (; x->due_seen < f->results.due_count && times_at(f, x->due_seen)->due <= now; x->due_seen++)
		happened |= DDLEMU_SIM_DUE;
	uint64_t visible = umin64(x->due_seen, f->results.receives_seen);
	if (visible != x->visible_seen)
		happened |= DDLEMU_SIM_VISIBLE;
	x->visible_seen = visible;
	for (; x->complete_seen < f->results.complete_count && times_at(f, x->complete_seen)->complete <= now;
		x->complete_seen++)
		happened |= DDLEMU_SIM_COMPLETE;
	if (x->timer != 0 && x->timer <= now) {
		x->timer = 0;
		happened |= DDLEMU_SIM_TIMER;
	}
	return f->broken != 0 ? happened | DDLEMU_SIM_BROKEN : happened;
}

// next_of is when the flow, or one of its ends, has something to do. What is to be done by now was done.
static int64_t next_of(const struct ddlemu_sim_flow *x, struct ddlemu_flow *f, int64_t now)
{
	int64_t next = f->results.next;
	if (x->due_seen < f->results.due_count)
		next = min64(next, times_at(f, x->due_seen)->due);
	if (x->complete_seen < f->results.complete_count)
		next = min64(next, times_at(f, x->complete_seen)->complete);
	if (x->timer != 0)
		next = min64(next, x->timer);
	return max64(next, now + 1);
}

bool ddlemu_sim_step(struct ddlemu_sim *s, uint32_t i)
{
	s->steps++;
	struct ddlemu_flow *f = s->driver->advance(s, i);
	if (f == NULL) {
		unschedule(s, sim_flow(s, i));
		return false;
	}
	struct ddlemu_sim_flow *x = sim_flow(s, i);
	uint32_t happened = take_events(x, f, s->now);
	bool broken = happened & DDLEMU_SIM_BROKEN;
	ddlemu_sim_schedule(s, i, broken ? DDLEMU_NEVER : next_of(x, f, s->now));
	if (s->driver->note(s, i, happened))
		s->seen = true;
	return !broken && f->known < load64(&f->posted);
}

// --- the order of steps

static int compare_order(const void *a, const void *b)
{
	const struct ddlemu_sim_posted *x = a, *y = b;
	return x->order != y->order ? (x->order > y->order) - (x->order < y->order)
				    : (x->flow > y->flow) - (x->flow < y->flow);
}

static void sort_posted(struct ddlemu_sim *s)
{
	for (uint32_t i = 1; i < s->posted_count; i++) {
		if (compare_order(&s->posted[i - 1], &s->posted[i]) > 0) {
			qsort(s->posted, s->posted_count, sizeof *s->posted, compare_order);
			return;
		}
	}
}

static bool is_full(const struct ddlemu_sim *s, uint32_t flow)
{
	return s->driver->is_full != NULL && s->driver->is_full(s, flow);
}

// read_posts makes flows read what was posted at this instant, round-robin. It returns false if the driver must empty
// its memory meanwhile; then the next call goes on.
static bool read_posts(struct ddlemu_sim *s)
{
	if (!s->reading) {
		sort_posted(s);
		s->round_at = s->round_left = 0;
		s->reading = true;
	}
	while (s->posted_count > 0) {
		for (; s->round_at < s->posted_count; s->round_at++) {
			struct ddlemu_sim_posted p = s->posted[s->round_at];
			if (is_full(s, p.flow))
				return false;
			if (ddlemu_sim_step(s, p.flow))
				s->posted[s->round_left++] = p;
		}
		s->posted_count = s->round_left;
		s->round_at = s->round_left = 0;
	}
	s->reading = false;
	return true;
}

// make_steps makes the steps of the heap up to a time, or to the first instant at which an end has something to see.
static enum ddlemu_sim_stop make_steps(struct ddlemu_sim *s, int64_t until)
{
	while (*s->heap_size > 0 && !(s->seen && s->stops_at_each)) {
		struct ddlemu_sim_next top = s->heap[0];
		if (top.time > (s->seen ? s->now : until))
			break;
		if (top.time < s->now)
			return DDLEMU_SIM_BACKWARD;
		if (is_full(s, top.flow))
			return DDLEMU_SIM_FULL;
		if (!s->seen && s->pause_at > 0 && s->steps >= s->pause_at)
			return DDLEMU_SIM_PAUSED;
		s->now = top.time;
		ddlemu_sim_step(s, top.flow);
	}
	return s->seen ? DDLEMU_SIM_SEEN : DDLEMU_SIM_REACHED;
}

enum ddlemu_sim_stop ddlemu_sim_run(struct ddlemu_sim *s, int64_t until)
{
	if (!read_posts(s))
		return DDLEMU_SIM_FULL;
	return make_steps(s, until);
}
