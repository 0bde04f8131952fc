// SPDX-License-Identifier: Apache-2.0
//
// What both ends do with requests.
#ifndef DDLEMU_SHM_REQUEST_H
#define DDLEMU_SHM_REQUEST_H

#include "wait.h"

// has_entry says whether message i has an entry in the tables of the flow: the message that had it before is released.
static inline bool has_entry(const struct ddlemu_conn *c, uint64_t i) { return i - c->reusable < DDLEMU_MAX_MESSAGES; }

// new_request returns the request for a message, NULL if as many as NCCL may have are not complete.
static inline struct ddlemu_conn_request *new_request(struct ddlemu_conn *c, uint64_t msg, char *data, uint64_t size)
{
	struct ddlemu_conn_request *r = &c->req[msg % DDLEMU_MAX_REQUESTS];
	if (r->busy)
		return NULL;
	*r = (struct ddlemu_conn_request){ .base.comm = &c->base, .msg = msg, .data = data, .size = size, .busy = 1 };
	return r;
}

// complete gives a request back to NCCL.
static inline int complete(struct ddlemu_conn_request *r, uint64_t *count, int *done, size_t *size)
{
	if (size != NULL)
		*size = r->size;
	r->busy = 0;
	store64(count, read64(count) + 1);
	tell_waiting((struct ddlemu_conn *)r->base.comm);
	*done = 1;
	return DDLEMU_SUCCESS;
}

// copy_budget is how many bytes this call may copy.
static inline uint64_t copy_budget(struct ddlemu_conn *c, int64_t now)
{
	if (c->clock != NULL)
		return UINT64_MAX; // nobody else has to act meanwhile
	int64_t idle = now - c->last_call;
	c->last_call = now;
	return idle > DDLEMU_IDLE_LONG ? DDLEMU_COPY_AFTER_IDLE : DDLEMU_COPY_PER_CALL;
}

#endif
