// SPDX-License-Identifier: Apache-2.0
//
// Where things are in the clock's memory.

#include "clock.h"

static size_t nodes_off(void) { return (sizeof(struct ddlemu_clock) + 127) & ~(size_t)127; }

static size_t parties_off(uint32_t nodes) { return nodes_off() + nodes * sizeof(struct ddlemu_clock_node); }

size_t ddlemu_clock_size(uint32_t nodes, uint32_t parties)
{
	return parties_off(nodes) + parties * sizeof(struct ddlemu_party);
}

size_t ddlemu_clock_flow_offset(uint32_t i)
{
	return 4096 + DDLEMU_CLOCK_FLOWS * sizeof(struct ddlemu_heap_entry) + i * sizeof(struct ddlemu_clock_flow);
}

size_t ddlemu_clock_flows_size(void) { return ddlemu_clock_flow_offset(DDLEMU_CLOCK_FLOWS); }

void ddlemu_clock_init(void *memory, uint32_t nodes, uint32_t parties)
{
	struct ddlemu_clock *c = memory;
	c->now = DDLEMU_CLOCK_START;
	c->nodes = nodes;
	c->parties = parties;
}

void ddlemu_clock_flows_init(void *memory, uint64_t fabric_id)
{
	struct ddlemu_clock_flows *f = memory;
	f->magic = DDLEMU_CLOCK_FLOWS_MAGIC;
	f->fabric_id = fabric_id;
	f->capacity = DDLEMU_CLOCK_FLOWS;
}

void ddlemu_clock_place(struct ddlemu_clock_view *v, void *clock, void *flows)
{
	v->clock = clock;
	v->nodes = (void *)((char *)clock + nodes_off());
	v->parties = (void *)((char *)clock + parties_off(v->clock->nodes));
	v->flows = flows;
}
