// SPDX-License-Identifier: Apache-2.0
//
// Direct flows: the connections between two GPUs of a node, in a fabric whose nodes cost time. A kernel writes to the
// memory of the other GPU, so no proxy and no transport takes part. The memory itself is NCCL's: a flow only says when
// what was written has arrived.

#define _GNU_SOURCE
#include "clock.h"

#include <fcntl.h>

#define RECEIVED 1 // ns: when the receives are posted. The memory is there before any message is

// A name has the flow's place in its lower half, from 1, and its number among those that were made in the other.
static uint64_t name_of(const struct ddlemu_clock_flows *f, const struct ddlemu_clock_flow *x)
{
	return x->flow.id << 32 | (clock_flow_number(f, x) + 1);
}

// flow_of is the flow of a name, NULL if it is gone.
static struct ddlemu_clock_flow *flow_of(struct ddlemu_clock_flows *f, uint64_t name)
{
	const uint32_t place = (uint32_t)name - 1;
	if (place >= DDLEMU_CLOCK_FLOWS || !clock_flow_is_made(f, place))
		return NULL;
	struct ddlemu_clock_flow *x = &f->flow[place];
	return x->direct && x->flow.id == name >> 32 ? x : NULL;
}

// cross_groups adds the links out of and into what a message leaves and enters: PCI switches and CPUs.
static void cross_groups(const struct ddlemu_node_time *t, const struct ddlemu_direct_ends *e, struct ddlemu_path *p)
{
	for (size_t i = 0; i < DDLEMU_GPU_GROUPS; i++) {
		const uint32_t size = t->groups[i].gpus;
		if (size == 0)
			continue;
		const uint32_t first = e->src / t->gpus * ((t->gpus + size - 1) / size); // of the node
		const uint32_t from = first + e->src % t->gpus / size, to = first + e->dst % t->gpus / size;
		if (from == to)
			continue;
		p->hop[p->n++] = t->groups[i].first_hop + 2 * from;
		p->hop[p->n++] = t->groups[i].first_hop + 2 * to + 1;
	}
}

// path_of is the links from one GPU to the other. A credit takes as long as data.
static struct ddlemu_path path_of(const struct ddlemu_node_time *t, const struct ddlemu_direct_ends *e)
{
	struct ddlemu_path p = { 0 };
	if (t->mesh) {
		p.hop[p.n++] = t->first_hop + e->src * t->gpus + e->dst % t->gpus;
	} else {
		if (e->kind != DDLEMU_DIRECT_BROADCAST)
			p.hop[p.n++] = t->first_hop + 2 * e->src;
		if (e->kind == DDLEMU_DIRECT_UNICAST)
			cross_groups(t, e, &p);
		if (e->kind != DDLEMU_DIRECT_REDUCES)
			p.hop[p.n++] = t->first_hop + 2 * e->dst + 1;
	}
	p.reverse_n = p.n;
	memcpy(p.reverse, p.hop, sizeof p.hop);
	return p;
}

// close_ends closes the ends of a flow that a participant has.
static void close_ends(struct ddlemu_clock_view *v, struct ddlemu_clock_flow *x, uint32_t participant)
{
	const uint32_t sender = __atomic_load_n(&x->sender, __ATOMIC_RELAXED);
	const uint32_t receiver = __atomic_load_n(&x->receiver, __ATOMIC_RELAXED);
	if (sender != participant + 1 && receiver != participant + 1)
		return;
	if (sender == participant + 1)
		__atomic_store_n(&x->flow.sender_closed, 1, __ATOMIC_RELEASE);
	if (receiver == participant + 1)
		__atomic_store_n(&x->flow.receiver_closed, 1, __ATOMIC_RELEASE);
	ddlemu_flow_posted(v, x);
}

void ddlemu_direct_close(struct ddlemu_clock_view *v, uint32_t participant)
{
	if (v->node_time == NULL)
		return;
	for (uint32_t i = 0; i < DDLEMU_CLOCK_FLOWS; i++)
		if (clock_flow_is_made(v->flows, i) && v->flows->flow[i].direct)
			close_ends(v, &v->flows->flow[i], participant);
}

uint64_t ddlemu_direct_make(struct ddlemu_clock_view *v, const struct ddlemu_direct_ends *e)
{
	struct ddlemu_clock_flows *f = v->flows;
	struct ddlemu_clock_flow *x = clock_take_place(f);
	if (x == NULL)
		return 0;
	if (v->flows_file >= 0 && fallocate(v->flows_file, 0, (char *)x - (char *)f, sizeof *x) != 0) {
		clock_set_place(f, x, DDLEMU_FLOW_FREE);
		return 0;
	}
	clock_clear_flow(x);
	x->flow.id = __atomic_add_fetch(&v->clock->directs, 1, __ATOMIC_RELAXED);
	x->flow.path = path_of(v->node_time, e);
	x->sim.order = flow_order(v->job, e->src, e->dst, e->p2p << 8 | (e->channel & 63) << 2 | e->kind);
	x->sender_node = x->receiver_node = v->node;
	x->direct = 1;
	x->sender = v->participant + 1;
	clock_set_place(f, x, DDLEMU_FLOW_MADE);
	return name_of(f, x);
}

static bool is_broken(const struct ddlemu_clock_flow *x)
{
	return __atomic_load_n(&x->flow.broken, __ATOMIC_ACQUIRE) != 0;
}

bool ddlemu_direct_post(struct ddlemu_clock_view *v, uint64_t flow, uint64_t bytes)
{
	struct ddlemu_clock_flow *x = flow_of(v->flows, flow);
	if (x == NULL || is_broken(x) ||
		read64(&x->flow.posted) - load64(&x->flow.published.oldest_msg) >= DDLEMU_MAX_MESSAGES)
		return false;
	flow_receive(&x->flow, bytes, RECEIVED);
	flow_post(&x->flow, bytes, clock_read(v->clock));
	ddlemu_flow_posted(v, x);
	return true;
}

uint64_t ddlemu_direct_arrived(struct ddlemu_clock_view *v, uint64_t flow, uint64_t at_least)
{
	struct ddlemu_clock_flow *x = flow_of(v->flows, flow);
	if (x == NULL)
		return at_least;
	if (__atomic_load_n(&x->receiver, __ATOMIC_RELAXED) != v->participant + 1)
		__atomic_store_n(&x->receiver, v->participant + 1, __ATOMIC_RELAXED);
	if (is_broken(x))
		return DDLEMU_DIRECT_BROKEN;
	const uint64_t known = load64(&x->flow.published.due_count);
	const int64_t now = clock_read(v->clock);
	while (at_least < known && times_at(&x->flow, at_least)->due <= now)
		at_least++;
	return at_least;
}
