// SPDX-License-Identifier: Apache-2.0

#include "open.h"

#include <stdlib.h>

#include "advance.h"
#include "fault.h"
#include "wait.h"

struct ddlemu_engine ddlemu_engine_of(void *state)
{
	struct ddlemu_header *h = state;
	return (struct ddlemu_engine){
		.transport = &h->transport,
		.seed = h->seed,
		.hops = (void *)((char *)state + h->hops_off),
		.blocks = (void *)((char *)state + h->blocks_off),
		.tables = (void *)((char *)state + h->tables_off),
	};
}

void ddlemu_place_changes(struct ddlemu_clock_view *v, void *state)
{
	struct ddlemu_header *h = state;
	v->hops = h->hops;
	v->blocks = h->blocks;
	v->block = (void *)((char *)state + h->blocks_off);
	v->planned = (void *)((char *)state + h->planned_off);
	v->planned_count = h->planned;
}

struct ddlemu_conn *ddlemu_conn_new(const struct ddlemu_ops *ops, unsigned long id, const struct ddlemu_region *region,
	void *state, uint64_t link_stats_off, struct ddlemu_clock_view *clock, struct ddlemu_clock_flow *clock_flow,
	struct ddlemu_gpu_memory memory)
{
	struct ddlemu_conn *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	fault_leak();
	struct ddlemu_header *h = state;
	struct ddlemu_flow *f = clock == NULL ? region->memory : &clock_flow->flow;
	c->base = (struct ddlemu_comm){ .ops = ops, .id = id };
	c->f = f;
	c->clock = clock;
	c->clock_flow = clock_flow;
	c->ring = (char *)region->memory + region->ring_off;
	if (clock != NULL)
		c->places = (uint64_t *)(c->ring - sizeof(ddlemu_places));
	c->memory = memory;
	c->ring_size = region->ring_size;
	c->scale = h->time_scale;
	c->engine = ddlemu_engine_of(state);
	c->engine.flow = f;
	c->engine.path = region->path;
#ifdef DDLEMU_FAULTS
	c->engine.rate_fault = fault_rate;
#endif
	struct ddlemu_link_stats *stats = (void *)((char *)state + link_stats_off);
	c->stats = stats + c->engine.path.link;
	if (h->flow_paths)
		c->all_stats = stats;
	if (!conn_link(c)) {
		free(c);
		return NULL;
	}
	return c;
}

void ddlemu_conn_free(struct ddlemu_conn *c)
{
	conn_unlink(c);
	free(c);
}

// close_flow says that this end is gone. With a virtual clock it wakes the other end, and has the clock free the flow
// when both are gone.
static void close_flow(struct ddlemu_conn *c, uint32_t *closed)
{
	__atomic_store_n(closed, 1, __ATOMIC_SEQ_CST);
	if (c->clock == NULL)
		return;
	ddlemu_flow_posted(c->clock, c->clock_flow);
	raise_other(c);
}

void ddlemu_conn_close(struct ddlemu_conn *c)
{
	struct ddlemu_flow *f = c->f;
	if (is_sender(c)) {
		c->base.ops->withdraw(&c->base, NULL, SIZE_MAX);
		close_flow(c, &f->sender_closed);
		return;
	}
	uint64_t posted = load64(&f->posted);
	if (posted > c->copied_msgs)
		add64(&c->stats->aborted, posted - c->copied_msgs);
	add64(&c->stats->stalls, f->stalls);
	close_flow(c, &f->receiver_closed); // the last access: the flow may get another use
}
