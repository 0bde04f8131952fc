// SPDX-License-Identifier: Apache-2.0
//
// Direct flows: the connections between two GPUs of a node, in a fabric whose nodes cost time. A kernel writes to the
// memory of the other GPU, so no proxy and no transport takes part. The memory itself is NCCL's: a flow only says when
// what was written has arrived.
//
// On a virtual clock the event loop makes the steps of these flows, on a real one their ends do, in the calls below.

#define _GNU_SOURCE
#include "clock.h"

#include <fcntl.h>

#define LOOK_EVERY 100000000 // ns between two looks whether the holder of a flow's lock lives

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

// free_if_closed frees a flow on a real clock once both of its ends are closed: whoever closes the second one does.
// now: the ends that are closed now.
static void free_if_closed(struct ddlemu_clock_flows *f, struct ddlemu_clock_flow *x, uint32_t now)
{
	const uint32_t both = DDLEMU_SENDER | DDLEMU_RECEIVER;
	const uint32_t before = __atomic_fetch_or(&x->closed, now, __ATOMIC_SEQ_CST);
	if (before != both && (before | now) == both)
		clock_set_place(f, x, DDLEMU_FLOW_FREE);
}

// disown takes an end from a participant, which happens once in a flow's life. It says whether the participant had it.
static bool disown(uint32_t *owner, uint32_t participant)
{
	uint32_t own = participant + 1;
	return __atomic_compare_exchange_n(owner, &own, UINT32_MAX, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

// close_ends closes the ends of a flow that a participant has.
static void close_ends(struct ddlemu_clock_view *v, struct ddlemu_clock_flow *x, uint32_t participant)
{
	const uint32_t sender = __atomic_load_n(&x->sender, __ATOMIC_RELAXED);
	const uint32_t receiver = __atomic_load_n(&x->receiver, __ATOMIC_RELAXED);
	if (sender != participant + 1 && receiver != participant + 1)
		return;
	if (v->clock == NULL) {
		const uint32_t now = (disown(&x->sender, participant) ? DDLEMU_SENDER : 0) |
			(disown(&x->receiver, participant) ? DDLEMU_RECEIVER : 0);
		if (now != 0)
			free_if_closed(v->flows, x, now);
		return;
	}
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
	x->flow.id = __atomic_add_fetch(&f->directs, 1, __ATOMIC_RELAXED);
	x->flow.path = path_of(v->node_time, e);
	x->sim.order = flow_order(
		v->job, e->src, e->dst, (e->comm & 511) << 9 | e->p2p << 8 | (e->channel & 63) << 2 | e->kind);
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

// has_died says whether the participant that has an end of a flow has died, or left without its lock.
static bool has_died(const struct ddlemu_clock_view *v, const uint32_t *owner)
{
	const uint32_t own = __atomic_load_n(owner, __ATOMIC_ACQUIRE);
	if (own == UINT32_MAX) // its place is another's now
		return true;
	if (own == 0 || own == v->participant + 1 || v->lock_step == 0)
		return false;
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	l.l_start = v->lock_at + (int64_t)(own - 1) * v->lock_step;
	return fcntl(v->fabric_file, F_GETLK, &l) == 0 && l.l_type == F_UNLCK;
}

// notice_death breaks a flow if whoever has its lock has died: the steps are half made. It looks now and then only,
// because that is a system call.
static void notice_death(const struct ddlemu_clock_view *v, struct ddlemu_clock_flow *x, int64_t now)
{
	static int64_t looked;
	int64_t last = __atomic_load_n(&looked, __ATOMIC_RELAXED);
	if (now >= last && now - last < LOOK_EVERY)
		return;
	if (!__atomic_compare_exchange_n(&looked, &last, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	const uint32_t holder = __atomic_load_n(&x->flow.lock, __ATOMIC_ACQUIRE);
	if (holder == 0 || !has_died(v, holder == DDLEMU_SENDER ? &x->sender : &x->receiver))
		return;
	// It may have released the lock before it died.
	if (__atomic_load_n(&x->flow.lock, __ATOMIC_ACQUIRE) == holder)
		__atomic_store_n(&x->flow.broken, DDLEMU_INTERRUPTED, __ATOMIC_RELEASE);
}

// make_steps makes the steps of a flow that are due on a real clock, as its sender or its receiver. The other end may
// be making them: then they are there at the next look.
static void make_steps(struct ddlemu_clock_view *v, struct ddlemu_clock_flow *x, enum ddlemu_end end, int64_t now)
{
	struct ddlemu_flow *f = &x->flow;
	uint32_t unlocked = 0;
	if (flow_next(f) > now && load64(&f->posted) == load64(&f->published.posts_seen))
		return;
	if (!__atomic_compare_exchange_n(&f->lock, &unlocked, end, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		notice_death(v, x, now);
		return;
	}
	struct ddlemu_engine e = v->engine; // several threads of this process may be here, each with a flow of its own
	e.flow = f;
	e.path = read_path(&f->path);
	e.transport = &v->direct;
	if (ddlemu_has_path(v, &e.path))
		flow_advance(&e, now);
	else
		__atomic_store_n(&f->broken, DDLEMU_CORRUPT, __ATOMIC_RELEASE);
	__atomic_store_n(&f->lock, 0, __ATOMIC_RELEASE);
}

bool ddlemu_direct_post(struct ddlemu_clock_view *v, uint64_t flow, uint64_t bytes, int64_t now, int64_t written)
{
	struct ddlemu_clock_flow *x = flow_of(v->flows, flow);
	if (x == NULL || is_broken(x) ||
		read64(&x->flow.posted) - load64(&x->flow.published.oldest_msg) >= DDLEMU_MAX_MESSAGES)
		return false;
	flow_receive(&x->flow, bytes, RECEIVED);
	flow_write(&x->flow, bytes, now, written);
	if (v->clock == NULL)
		make_steps(v, x, DDLEMU_SENDER, now);
	else
		ddlemu_flow_posted(v, x);
	return true;
}

uint64_t ddlemu_direct_arrived(struct ddlemu_clock_view *v, uint64_t flow, uint64_t at_least, int64_t now)
{
	struct ddlemu_clock_flow *x = flow_of(v->flows, flow);
	if (x == NULL)
		return at_least;
	if (__atomic_load_n(&x->receiver, __ATOMIC_RELAXED) != v->participant + 1)
		__atomic_store_n(&x->receiver, v->participant + 1, __ATOMIC_RELAXED);
	if (v->clock == NULL)
		make_steps(v, x, DDLEMU_RECEIVER, now);
	if (is_broken(x))
		return DDLEMU_DIRECT_BROKEN;
	const uint64_t known = load64(&x->flow.published.due_count);
	while (at_least < known && read_time(&times_at(&x->flow, at_least)->due) <= now)
		at_least++;
	return at_least;
}

bool ddlemu_direct_times_of(
	struct ddlemu_clock_view *v, uint64_t flow, uint64_t message, struct ddlemu_direct_times *times)
{
	struct ddlemu_clock_flow *x = flow_of(v->flows, flow);
	if (x == NULL)
		return false;
	const struct ddlemu_send sent = read_send(&x->flow, message);
	const struct ddlemu_times *t = times_at(&x->flow, message);
	*times = (struct ddlemu_direct_times){ sent.size, sent.posted, read_time(&t->due), read_time(&t->distortion) };
	return true;
}
