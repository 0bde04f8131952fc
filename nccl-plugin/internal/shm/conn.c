// SPDX-License-Identifier: Apache-2.0
//
// Making and ending one end of a connection. The calls of NCCL are in other files. The life of a message:
//
//  1. isend posts the message in the flow and copies its first bytes into the ring (send.c, copy_in). irecv posts the
//     receive (receive.c). With a virtual clock the bytes stay where they are if the receiver maps that memory
//     (place.h).
//  2. Every call on either end makes the steps of the link model whose time has come (advance.h). The sender's calls
//     copy the message's other bytes into the ring.
//  3. test of the receive copies the bytes that have arrived, in the model, out of the ring (receive.c, copy_out). When
//     the message is due and copied, it counts the message and its lateness.
//  4. test reports the receive when the message is copied out. It reports the send when the model says that it is
//     complete and its bytes are in the ring.
//
// If the process writes a ledger, each of these calls notes what it did (record.h).
//
// No call waits, allocates memory or enters the kernel (clock_gettime is in the vDSO).
//
// Threads and processes. NCCL makes the calls on one end from one thread at a time. The flow and the ring are memory
// that both processes map; shaper/engine/link/flow.h says which end writes which field. The state of the link model
// belongs to the thread that has flow->lock. A call only tries that lock: if the other end has it, the other end makes
// the steps. To make steps in time, a call may also advance the process's other connections. Their list has a lock,
// which calls of NCCL only try; ddlemu_conn_new and ddlemu_conn_free, which NCCL's progress thread does not call, wait
// for it. The thread that watches the peers writes base.dead.
//
// Memory order. A count is stored with release after what it counts, and loaded with acquire before that is read:
//
//	posted, receives_posted     the entries of sends and receives
//	written                     the bytes in the ring
//	consumed                    the free space in the ring: the bytes were read
//	receives_done               the entries of messages that may be used again
//	published.*                 the entries of times
//	lock, sender_closed, receiver_closed, receive_error, broken, dead    everything that was written before
//
// An end loads its own counts without an order. The peer may overwrite anything in the shared memory. So this end's
// pointers, its path and the ring's size are private, and a value of the peer is loaded once, then checked.

#include "conn.h"

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
