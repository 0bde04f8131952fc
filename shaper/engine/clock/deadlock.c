// SPDX-License-Identifier: Apache-2.0
//
// Who waits for whom when nothing is left to happen.

#include "clock.h"

#include <stdio.h>

#define MOST_LINES 16

// What a rank waits for on the flows to another one.
enum wait { NOTHING, A_MESSAGE, A_RECEIVE };

static enum wait wait_on(const struct ddlemu_flow *f)
{
	if (f->receives_posted > f->posted)
		return A_MESSAGE;
	return f->posted > f->receives_posted ? A_RECEIVE : NOTHING;
}

// next_made returns the first flow from number *i on, and sets *i to the number behind it; NULL: there is none.
static const struct ddlemu_clock_flow *next_made(const struct ddlemu_clock_flows *f, uint32_t *i)
{
	while (*i < DDLEMU_CLOCK_FLOWS) {
		uint32_t k = (*i)++;
		if (clock_flow_is_made(f, k))
			return &f->flow[k];
	}
	return NULL;
}

// is_first says whether no flow before this one has the same ranks and the same wait, which is said once.
static bool is_first(const struct ddlemu_clock_flows *f, const struct ddlemu_clock_flow *x)
{
	uint32_t i = 0;
	for (const struct ddlemu_clock_flow *y; (y = next_made(f, &i)) != x && y != NULL;)
		if (job_and_ranks(y->sim.order) == job_and_ranks(x->sim.order) &&
			wait_on(&y->flow) == wait_on(&x->flow))
			return false;
	return true;
}

static void say(const struct ddlemu_clock_flow *x)
{
	unsigned sender = sender_of(x->sim.order), receiver = receiver_of(x->sim.order);
	if (wait_on(&x->flow) == A_MESSAGE)
		fprintf(stderr, "ddlemu: rank %u waits for a message from rank %u\n", receiver, sender);
	else
		fprintf(stderr, "ddlemu: rank %u waits until rank %u receives its message\n", sender, receiver);
}

void ddlemu_report_deadlock(struct ddlemu_clock_view *v)
{
	uint32_t i = 0, lines = 0;
	fprintf(stderr, "ddlemu: deadlock: every rank waits, and nothing is left to happen\n");
	for (const struct ddlemu_clock_flow *x; lines < MOST_LINES && (x = next_made(v->flows, &i)) != NULL;) {
		if (wait_on(&x->flow) == NOTHING || !is_first(v->flows, x))
			continue;
		say(x);
		lines++;
	}
	if (lines == 0)
		fprintf(stderr, "ddlemu: no message between nodes is missing: ranks of one node wait for each other\n");
}
