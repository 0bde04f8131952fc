// SPDX-License-Identifier: Apache-2.0

#include "node.h"

#include "../../../shaper/fabric/state/lateness.h"
#include "../transport/call.h"
#include "fault.h"

static struct ddlemu_clock_view view;
static struct ddlemu_link_stats *stats;
static int64_t scale;
static bool left;

// has_left says whether this process has left the fabric. Threads that are left over while it ends do nothing more.
static bool has_left(void) { return __atomic_load_n(&left, __ATOMIC_ACQUIRE); }

static int64_t now(void)
{
	int64_t t = clock_now();
	fault_hold(t);
	return t;
}

static uint64_t direct_make(const struct ddlemu_direct_ends *ends)
{
	return has_left() ? UINT64_MAX : ddlemu_direct_make(&view, ends);
}

static int direct_post(uint64_t flow, uint64_t bytes)
{
	return has_left() || ddlemu_direct_post(&view, flow, bytes, clock_now());
}

static uint64_t direct_arrived(uint64_t flow, uint64_t at_least)
{
	return has_left() ? at_least : ddlemu_direct_arrived(&view, flow, at_least, clock_now());
}

// Time in which nobody looked whether something could begin counts as lateness: it may have been possible all along.
static void played(const struct ddlemu_played *p)
{
	if (has_left())
		return;
	count_delivery(&stats[p->part],
		&(struct ddlemu_delivery){ .size = p->bytes,
			.posted = p->begun,
			.receive_posted = p->begun,
			.due = p->due,
			.visible = p->ended,
			.distortion = p->unseen },
		scale);
}

static void direct_received(uint64_t flow, uint64_t message, int64_t wanted)
{
	struct ddlemu_direct_times t;
	if (has_left() || !ddlemu_direct_times_of(&view, flow, message, &t))
		return;
	count_delivery(&stats[DDLEMU_NODE_MESSAGES],
		&(struct ddlemu_delivery){ .size = t.size,
			.posted = t.posted,
			.receive_posted = wanted,
			.due = t.due,
			.visible = now(),
			.distortion = t.distortion },
		scale);
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
	__atomic_store_n(&left, true, __ATOMIC_RELEASE);
	ddlemu_direct_close(v, v->participant);
}
