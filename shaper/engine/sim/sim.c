// SPDX-License-Identifier: Apache-2.0

#include "sim.h"

#include "../link/arith.h"

// --- the queue: a heap

static bool is_before(const struct ddlemu_sim_entry *a, const struct ddlemu_sim_entry *b)
{
	if (a->time != b->time)
		return a->time < b->time;
	if (a->class != b->class)
		return a->class < b->class;
	if (a->tie != b->tie)
		return a->tie < b->tie;
	return a->number != b->number ? a->number < b->number : a->index < b->index;
}

static bool is_of_flow(const struct ddlemu_sim_entry *x)
{
	return x->class == DDLEMU_SIM_STEP || x->class == DDLEMU_SIM_POST;
}

static void put_at(struct ddlemu_sim *s, uint32_t place, struct ddlemu_sim_entry x)
{
	s->heap[place] = x;
	if (is_of_flow(&x))
		sim_flow(s, x.index)->place = place + 1;
	else
		s->place[x.class] = place + 1;
}

// sift moves x, which belongs at place or above or below it, to where it belongs.
static void sift(struct ddlemu_sim *s, uint32_t place, struct ddlemu_sim_entry x)
{
	struct ddlemu_sim_entry *heap = s->heap;
	uint32_t size = *s->heap_size;
	for (; place > 0 && is_before(&x, &heap[(place - 1) / 2]); place = (place - 1) / 2)
		put_at(s, place, heap[(place - 1) / 2]);
	for (;;) {
		uint32_t child = 2 * place + 1;
		if (child + 1 < size && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (child >= size || !is_before(&heap[child], &x))
			break;
		put_at(s, place, heap[child]);
		place = child;
	}
	put_at(s, place, x);
}

static void remove_at(struct ddlemu_sim *s, uint32_t place)
{
	struct ddlemu_sim_entry last = s->heap[--*s->heap_size];
	if (place < *s->heap_size)
		sift(s, place, last);
}

static void unschedule(struct ddlemu_sim *s, struct ddlemu_sim_flow *x)
{
	if (x->place == 0)
		return;
	uint32_t place = x->place - 1;
	x->place = 0;
	remove_at(s, place);
}

// choose is the only place that decides between orders, where several are allowed: what has the smallest value comes
// first. order is the fixed one. when and round are the occurrence.
static uint64_t choose(
	const struct ddlemu_sim *s, enum ddlemu_sim_point point, uint64_t order, uint64_t when, uint64_t round)
{
	if (!s->draws_ties)
		return order;
	if (point == DDLEMU_SIM_CHANNELS) // has a seed of its own
		return draw(s->channels_seed, 0, 0, round, when);
	return draw(s->seed, point, (uint32_t)round, order, when);
}

uint32_t ddlemu_sim_first_channel(struct ddlemu_sim *s, uint32_t rank, uint64_t kernel, uint32_t channels)
{
	s->channels_seed = choose(s, DDLEMU_SIM_CHANNELS, 0, kernel, rank);
	return (uint32_t)(s->channels_seed % channels);
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
	uint64_t tie = choose(s, DDLEMU_SIM_STEPS, x->order, (uint64_t)time, 0);
	sift(s, x->place - 1,
		(struct ddlemu_sim_entry){
			.time = time, .class = DDLEMU_SIM_STEP, .tie = tie, .number = flow, .index = flow });
}

void ddlemu_sim_add(struct ddlemu_sim *s, struct ddlemu_sim_entry x)
{
	s->changes += x.class == DDLEMU_SIM_CHANGE;
	sift(s, (*s->heap_size)++, x);
}

// post puts the entry of a flow where its post is read: in a round of this instant. Its next step is known again then.
static void post(struct ddlemu_sim *s, uint32_t flow, uint64_t round)
{
	struct ddlemu_sim_flow *x = sim_flow(s, flow);
	if (x->posted != 0)
		return;
	x->posted = 1;
	s->posts++;
	if (x->place == 0)
		x->place = ++*s->heap_size;
	uint64_t number = choose(s, DDLEMU_SIM_POSTS, x->order, (uint64_t)s->now, round);
	sift(s, x->place - 1,
		(struct ddlemu_sim_entry){
			.time = s->now, .class = DDLEMU_SIM_POST, .tie = round, .number = number, .index = flow });
}

void ddlemu_sim_posted(struct ddlemu_sim *s, uint32_t flow) { post(s, flow, 0); }

static bool is_timer(const struct ddlemu_sim_entry *x)
{
	return x->class == DDLEMU_SIM_TIMER || x->class == DDLEMU_SIM_EARLY_TIMER;
}

uint32_t ddlemu_sim_take_timer(struct ddlemu_sim *s)
{
	const struct ddlemu_sim_entry *first = &s->heap[0];
	if (*s->heap_size == 0 || first->time > s->now || !is_timer(first))
		return DDLEMU_SIM_NONE;
	uint32_t index = first->index;
	remove_at(s, 0);
	return index;
}

void ddlemu_sim_remove(struct ddlemu_sim *s, enum ddlemu_sim_class class)
{
	uint32_t place = s->place[class] - 1;
	if (place >= *s->heap_size || s->heap[place].class != class)
		return;
	s->changes -= class == DDLEMU_SIM_CHANGE;
	remove_at(s, place);
}

uint32_t ddlemu_sim_drop_first(struct ddlemu_sim *s)
{
	const struct ddlemu_sim_entry first = s->heap[0];
	remove_at(s, 0);
	switch ((enum ddlemu_sim_class)first.class) {
	case DDLEMU_SIM_POST:
		s->posts--;
		sim_flow(s, first.index)->posted = 0;
		// fall through
	case DDLEMU_SIM_STEP:
		sim_flow(s, first.index)->place = 0;
		return first.index;
	case DDLEMU_SIM_CHANGE:
		s->changes--;
		break;
	case DDLEMU_SIM_EARLY_TIMER:
	case DDLEMU_SIM_TIMER:
		break;
	}
	return DDLEMU_SIM_NONE;
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

// --- time

static bool is_full(const struct ddlemu_sim *s, uint32_t flow)
{
	return s->driver->is_full != NULL && s->driver->is_full(s, flow);
}

// read_post reads a message that was posted to a flow. If there are others, the flow takes its turn in the next round.
static void read_post(struct ddlemu_sim *s, const struct ddlemu_sim_entry *first)
{
	s->posts--;
	sim_flow(s, first->index)->posted = 0;
	if (ddlemu_sim_step(s, first->index))
		post(s, first->index, first->tie + 1);
}

// is_left says whether the loop goes on to an entry. Without another one, changes change nothing.
static bool is_left(const struct ddlemu_sim *s, int64_t until)
{
	if (*s->heap_size <= s->changes || (s->seen && s->stops_at_each))
		return false;
	return s->heap[0].time <= (s->seen ? s->now : until);
}

// advance_time is the only place where time advances: to the time of the first entry.
static bool advance_time(struct ddlemu_sim *s)
{
	if (s->heap[0].time < s->now)
		return false;
	s->now = s->heap[0].time;
	return true;
}

enum ddlemu_sim_stop ddlemu_sim_run(struct ddlemu_sim *s, int64_t until)
{
	while (is_left(s, until)) {
		const struct ddlemu_sim_entry first = s->heap[0];
		if (is_of_flow(&first) && is_full(s, first.index))
			return DDLEMU_SIM_FULL;
		if (first.class != DDLEMU_SIM_POST && !s->seen && s->pause_at > 0 && s->steps >= s->pause_at)
			return DDLEMU_SIM_PAUSED;
		if (!advance_time(s))
			return DDLEMU_SIM_BACKWARD;
		switch ((enum ddlemu_sim_class)first.class) {
		case DDLEMU_SIM_CHANGE:
			s->changed = first.index;
			s->changes--;
			remove_at(s, 0);
			return DDLEMU_SIM_CHANGED;
		case DDLEMU_SIM_STEP:
			ddlemu_sim_step(s, first.index);
			break;
		case DDLEMU_SIM_EARLY_TIMER:
		case DDLEMU_SIM_TIMER:
			if (s->pause_at > 0)
				s->pause_at--; // it counts as a step
			s->seen = true;
			return DDLEMU_SIM_SEEN;
		case DDLEMU_SIM_POST:
			read_post(s, &first);
		}
	}
	return s->seen ? DDLEMU_SIM_SEEN : DDLEMU_SIM_REACHED;
}
