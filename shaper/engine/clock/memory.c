// SPDX-License-Identifier: Apache-2.0
//
// Where things are in the clock's memory.

#include "clock.h"

static size_t nodes_off(void) { return (sizeof(struct ddlemu_clock) + 127) & ~(size_t)127; }

static size_t participants_off(uint32_t nodes) { return nodes_off() + nodes * sizeof(struct ddlemu_clock_node); }

size_t ddlemu_clock_size(uint32_t nodes, uint32_t participants)
{
	return participants_off(nodes) + participants * sizeof(struct ddlemu_participant);
}

void ddlemu_clock_init(void *memory, uint32_t nodes, uint32_t participants)
{
	struct ddlemu_clock *c = memory;
	c->now = DDLEMU_CLOCK_START;
	c->nodes = nodes;
	c->participants = participants;
}

void ddlemu_clock_reset(void *clock, void *flows, int64_t now)
{
	struct ddlemu_clock *c = clock;
	struct ddlemu_clock_flows *f = flows;
	f->heap_size = f->first_posted = 0;
	for (uint32_t i = 0; i < DDLEMU_CLOCK_FLOWS; i++)
		f->in_use[i] = DDLEMU_FLOW_FREE;
	if (c == NULL)
		return;
	c->interrupted = c->stepping = c->deadlocked = 0;
	c->stuck_since = 0;
	__atomic_store_n(&c->now, max64(c->now, now), __ATOMIC_SEQ_CST);
}

void ddlemu_clock_place(struct ddlemu_clock_view *v, void *clock, void *flows)
{
	v->clock = clock;
	v->nodes = (void *)((char *)clock + nodes_off());
	v->participants = (void *)((char *)clock + participants_off(v->clock->nodes));
	v->flows = flows;
}
