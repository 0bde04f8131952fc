// SPDX-License-Identifier: Apache-2.0
//
// The time of a node on a real clock: this process's calls for the executor of the software CUDA
// (shaper/engine/clock/calls.h), and what they count for the verdict. On a virtual clock the clock has these calls.
#ifndef DDLEMU_SHM_NODE_H
#define DDLEMU_SHM_NODE_H

#include "conn.h"

// Joins: view has no clock. stats are the statistics of what this rank's GPU does, by enum ddlemu_node_part. Once per
// process. Returns the view that the calls use.
struct ddlemu_clock_view *ddlemu_node_join(
	const struct ddlemu_clock_view *view, struct ddlemu_link_stats *stats, int64_t scale);
// Leaves: the calls do nothing from now on. It waits, at most a second, for threads that are in one.
void ddlemu_node_leave(struct ddlemu_clock_view *);
// The calls of this process; NULL before it has joined.
const struct ddlemu_node_calls *ddlemu_node_calls(void);

#endif
