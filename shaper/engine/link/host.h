// SPDX-License-Identifier: Apache-2.0
//
// What each message costs the emulated hosts at its two ends. Each NIC has one worker in
// each direction. It handles whole messages, one at a time in the order they come: a
// message reaches the sender's port when the sending worker is done with it, and is due
// when the receiving worker is.
#ifndef DDLEMU_LINK_HOST_H
#define DDLEMU_LINK_HOST_H

#include "hops.h"

// hosts_cost says whether messages cost the hosts time.
static inline bool hosts_cost(const struct ddlemu_engine *e)
{
	return e->transport->host.per_message != 0 || e->transport->host.ns_den != 0;
}

// Gives a message, posted at that time, to the sending worker and returns when the worker is done with it.
int64_t host_send(const struct ddlemu_engine *, uint64_t msg, int64_t posted, int64_t now);
// Gives the message that ends with this segment, whose last byte is there, to the receiving worker, and returns when
// the message is due.
int64_t host_deliver(const struct ddlemu_engine *, const struct ddlemu_segment *, int64_t now);

// sender_ready is when the sending host is done with message i.
static inline int64_t sender_ready(const struct ddlemu_engine *e, uint64_t i)
{
	return hosts_cost(e) ? times_at(e->flow, i)->ready : send_posted(e->flow, i);
}

#endif
