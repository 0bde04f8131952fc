// SPDX-License-Identifier: Apache-2.0
//
// The time of a connection, and what a virtual clock has to know besides posts: which end waits, and what may end that.
// On a real clock nobody waits.
#ifndef DDLEMU_SHM_WAIT_H
#define DDLEMU_SHM_WAIT_H

#include "../transport/call.h"
#include "conn.h"

// time_of is the connection's time: it stands still during a call if the clock is virtual.
static inline int64_t time_of(const struct ddlemu_conn *c)
{
	return c->clock == NULL ? clock_now() : clock_read(c->clock->clock);
}

// An end that waits for something that the other end does with the ring or the tables, which the model does not see,
// says so before it looks for the last time. The other end looks whether somebody waits after it has done that.

static inline uint32_t *waits_of(struct ddlemu_conn *c, bool sender)
{
	return sender ? &c->clock_flow->sender_waits : &c->clock_flow->receiver_waits;
}

// must_look_again says whether this end, which found nothing, has to look once more before it waits.
static inline bool must_look_again(struct ddlemu_conn *c)
{
	return c->clock != NULL && __atomic_exchange_n(waits_of(c, is_sender(c)), 1, __ATOMIC_SEQ_CST) == 0;
}

static inline void stop_waiting(struct ddlemu_conn *c)
{
	if (c->clock != NULL && __atomic_load_n(waits_of(c, is_sender(c)), __ATOMIC_RELAXED) != 0)
		__atomic_store_n(waits_of(c, is_sender(c)), 0, __ATOMIC_SEQ_CST);
}

// raise_other wakes the threads of the other end's node. Only with a virtual clock.
static inline void raise_other(struct ddlemu_conn *c)
{
	const struct ddlemu_clock_flow *f = c->clock_flow;
	ddlemu_node_raise(c->clock, is_sender(c) ? f->receiver_node : f->sender_node, DDLEMU_EVENTS);
}

// tell_waiting wakes the other end if it waits for what this end has just done.
static inline void tell_waiting(struct ddlemu_conn *c)
{
	if (c->clock == NULL)
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(waits_of(c, !is_sender(c)), __ATOMIC_SEQ_CST) != 0)
		raise_other(c);
}

// raise_events tells the threads of this node that they may see something new: NCCL's kernels poll the bytes.
static inline void raise_events(struct ddlemu_conn *c)
{
	if (c->clock != NULL)
		ddlemu_node_raise(c->clock, c->clock->node, DDLEMU_EVENTS);
}

#endif
