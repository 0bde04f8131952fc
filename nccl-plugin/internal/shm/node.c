// SPDX-License-Identifier: Apache-2.0

#include "node.h"

#include <sched.h>

#include "../../../shaper/fabric/state/lateness.h"
#include "../transport/call.h"
#include "fault.h"

static struct ddlemu_clock_view view;
static struct ddlemu_link_stats *stats;
static int64_t scale;
static bool left;
static uint32_t inside; // threads that are in a call

// The longest time to wait for threads in a call, in ns. They need microseconds; one that the process has stopped, or
// in which it calls exit, does not come out.
#define MOST_INSIDE 1000000000

static void end_call(void) { __atomic_sub_fetch(&inside, 1, __ATOMIC_RELEASE); }

// begin_call says whether a thread may use the fabric, until it calls end_call. Threads that are left over while the
// process ends may not: its place may be another's by then. Either this sees that the process has left, or
// ddlemu_node_leave sees the thread.
static bool begin_call(void)
{
	__atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&left, __ATOMIC_SEQ_CST))
		return true;
	end_call();
	return false;
}

static int64_t now(void)
{
	int64_t t = clock_now();
	fault_hold(t);
	return t;
}

static uint64_t direct_make(const struct ddlemu_direct_ends *ends)
{
	if (!begin_call())
		return UINT64_MAX;
	const uint64_t name = ddlemu_direct_make(&view, ends);
	end_call();
	return name;
}

static int direct_post(uint64_t flow, uint64_t bytes, int64_t written)
{
	if (!begin_call())
		return 1;
	const int is_posted = ddlemu_direct_post(&view, flow, bytes, clock_now(), written);
	end_call();
	return is_posted;
}

static uint64_t direct_arrived(uint64_t flow, uint64_t at_least)
{
	if (!begin_call())
		return at_least;
	const uint64_t arrived = ddlemu_direct_arrived(&view, flow, at_least, clock_now());
	end_call();
	return arrived;
}

// Time in which nobody looked whether something could begin counts as lateness: it may have been possible all along.
static void played(const struct ddlemu_played *p)
{
	if (!begin_call())
		return;
	count_delivery(&stats[p->part],
		&(struct ddlemu_delivery){ .size = p->bytes,
			.posted = p->begun,
			.receive_posted = p->begun,
			.due = p->due,
			.visible = p->ended,
			.distortion = p->unseen },
		scale);
	end_call();
}

static void direct_received(uint64_t flow, uint64_t message, int64_t wanted)
{
	struct ddlemu_direct_times t;
	if (!begin_call())
		return;
	if (ddlemu_direct_times_of(&view, flow, message, &t))
		count_delivery(&stats[DDLEMU_NODE_MESSAGES],
			&(struct ddlemu_delivery){ .size = t.size,
				.posted = t.posted,
				.receive_posted = wanted,
				.due = t.due,
				.visible = now(),
				.distortion = t.distortion },
			scale);
	end_call();
}

static struct ddlemu_node_calls calls = {
	.version = DDLEMU_CLOCK_CALLS_VERSION,
	.now = now,
	.direct_make = direct_make,
	.direct_post = direct_post,
	.direct_arrived = direct_arrived,
	.played = played,
	.direct_received = direct_received,
};

const struct ddlemu_node_calls *ddlemu_node_calls(void) { return calls.time == NULL ? NULL : &calls; }

struct ddlemu_clock_view *ddlemu_node_join(
	const struct ddlemu_clock_view *v, struct ddlemu_link_stats *counts, int64_t time_scale)
{
	view = *v;
	view.direct = clock_direct_transport(view.engine.transport);
	stats = counts;
	scale = time_scale;
	calls.rank = view.rank;
	calls.ranks = view.ranks;
	calls.time = view.node_time;
	ddlemu_direct_close(&view, view.participant); // of a process that had this place before, and died
	return &view;
}

void ddlemu_node_leave(struct ddlemu_clock_view *v)
{
	__atomic_store_n(&left, true, __ATOMIC_SEQ_CST);
	const int64_t until = clock_now() + MOST_INSIDE;
	while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) > 0 && clock_now() < until)
		sched_yield();
	ddlemu_direct_close(v, v->participant);
}
