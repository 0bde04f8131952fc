// SPDX-License-Identifier: Apache-2.0

#include "private.h"

static struct ddlemu_flow *advance(struct ddlemu_sim *s, uint32_t i)
{
	struct ddlemu_engine *e = ((struct ddlemu_sim_private *)s)->engines[i];
	flow_advance(e, s->now);
	return e->flow;
}

static bool note(struct ddlemu_sim *s, uint32_t i, uint32_t happened)
{
	struct ddlemu_sim_private *p = (struct ddlemu_sim_private *)s;
	happened &= DDLEMU_SIM_VISIBLE | DDLEMU_SIM_COMPLETE | DDLEMU_SIM_BROKEN;
	if (happened == 0)
		return false;
	struct ddlemu_sim_flow *x = sim_flow(s, i);
	if (x->happened == 0)
		p->batch[p->batch_count++] = i;
	x->happened |= happened;
	return true;
}

// is_full says whether there may be no place for what the next step of a flow notes of segments.
static bool is_full(const struct ddlemu_sim *s, uint32_t i)
{
	const struct ddlemu_hop_records *p = ((const struct ddlemu_sim_private *)s)->engines[i]->records;
	return p != NULL && p->capacity - p->n < DDLEMU_MAX_SEGMENTS * DDLEMU_MAX_HOPS;
}

static const struct ddlemu_sim_driver driver = { .advance = advance, .note = note, .is_full = is_full };

void ddlemu_sim_private_init(struct ddlemu_sim_private *p)
{
	p->sim.stride = sizeof *p->sim.flows;
	p->sim.heap_size = &p->heap_size;
	p->sim.driver = &driver;
}
