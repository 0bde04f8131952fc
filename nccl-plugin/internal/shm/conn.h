// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection, in one process.
#ifndef DDLEMU_SHM_CONN_H
#define DDLEMU_SHM_CONN_H

#include "../transport/transport.h"
#include "../../../shaper/link/engine.h"

#define DDLEMU_FLOW_MAGIC 0x31776f6c66646464ull
#define DDLEMU_MAX_REQUESTS 32 // NCCL_NET_MAX_REQUESTS
// One call copies this much, so that none keeps the other connections waiting. When
// the thread was away for long, more has piled up and more may be copied: NCCL
// yields after every round that completed nothing, and on a crowded host each yield
// costs a time slice.
#define DDLEMU_COPY_PER_CALL (64 << 10)
#define DDLEMU_COPY_AFTER_LONG (1 << 20)
#define DDLEMU_LONG 100000 // ns

struct ddlemu_conn_request {
	struct ddlemu_request base;
	uint64_t msg; // index of the message
	char *data;
	uint64_t size; // of the send, or room for the receive
	int busy;
	int held; // counted in held_sends
};

struct ddlemu_conn {
	struct ddlemu_comm base;
	struct ddlemu_conn *next; // in the list of all
	struct ddlemu_engine engine;
	struct ddlemu_flow *f;
	char *ring;
	uint64_t ring_size; // this process's own copy, as of the path
	struct ddlemu_cell *cell; // where this job's messages on this link are counted; receiver only
	int64_t scale; // time scale
	int64_t last_call; // when this end was polled last
	// Messages below these indices need no more copying by this end.
	uint64_t copied_msgs, copied_off;
	// What the other end said when it was last looked at: its lines are far away.
	uint64_t consumed, floor;
	int64_t looked; // when posts of the other end were looked for
	struct ddlemu_conn_request req[DDLEMU_MAX_REQUESTS];
};

extern const struct ddlemu_ops ddlemu_shm_sender, ddlemu_shm_receiver;

// Makes one end. region maps the flow, state the fabric's file. Returns NULL when
// memory is short.
struct ddlemu_conn *ddlemu_conn_new(
	const struct ddlemu_ops *ops, unsigned long id, void *region, void *state, uint64_t cells_off);
void ddlemu_conn_free(struct ddlemu_conn *);
// Only its own calls advance it from now on.
void ddlemu_conn_unlink(struct ddlemu_conn *);
// Tells the other end that this one is gone, and counts what was in flight.
void ddlemu_conn_close(struct ddlemu_conn *);

#endif
