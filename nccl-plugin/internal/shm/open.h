// SPDX-License-Identifier: Apache-2.0
//
// Makes and ends one end of a connection on the shm datapath.
#ifndef DDLEMU_SHM_OPEN_H
#define DDLEMU_SHM_OPEN_H

#include "conn.h"

// The engine of a fabric's file, without a flow and its path.
struct ddlemu_engine ddlemu_engine_of(void *state);
// Says in a view where the fabric's hops, their parameters and their planned changes are.
void ddlemu_place_changes(struct ddlemu_clock_view *, void *state);

// A connection's memory, which begins with the flow, and what this process has checked of what the flow says: the peer
// may overwrite that.
struct ddlemu_region {
	void *memory;
	uint64_t ring_off, ring_size;
	struct ddlemu_path path;
};

// Makes one end. state is the fabric's file, link_stats_off the offset of the job's link statistics in it. With a
// virtual clock the flow is clock_flow, and the region holds the places and the ring. Returns NULL when there is no
// memory.
struct ddlemu_conn *ddlemu_conn_new(const struct ddlemu_ops *ops, unsigned long id, const struct ddlemu_region *region,
	void *state, uint64_t link_stats_off, struct ddlemu_clock_view *clock, struct ddlemu_clock_flow *clock_flow,
	struct ddlemu_gpu_memory memory);
void ddlemu_conn_free(struct ddlemu_conn *);
// Tells the other end that this end is gone. A receiver counts the messages that it has not received as aborted.
void ddlemu_conn_close(struct ddlemu_conn *);

#endif
