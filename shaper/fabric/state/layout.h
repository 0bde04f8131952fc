// SPDX-License-Identifier: Apache-2.0
//
// The mapped file of a fabric that is up, as C sees it. layout.go is the same in Go; a test compares the two field by
// field. All fields are little-endian; times are nanoseconds of CLOCK_MONOTONIC, already multiplied by the time scale
// unless their name has "stated".
#ifndef DDLEMU_STATE_LAYOUT_H
#define DDLEMU_STATE_LAYOUT_H

#include "../../engine/link/link.h"
#include "../../engine/node/node.h"
#include "limits.h"

#define DDLEMU_STATE_VERSION 27

// The counters of one job in one size class of one link.
struct ddlemu_class {
	uint64_t messages, bytes;
	uint64_t over_p50, over_p99; // messages later than the limits of the verdict
	int64_t sum_late, sum_time;
	int64_t max_late;
	uint32_t late[DDLEMU_LATE_BUCKETS]; // see state.Bucket
};

// The times that a full queue behind a hop held it back, and for how long in sum.
struct ddlemu_pauses {
	uint64_t times;
	int64_t ns;
};

// The counters of one job on one link. All fields are atomic.
struct ddlemu_link_stats {
	struct ddlemu_class size[DDLEMU_SIZE_CLASSES];
	int64_t model_busy, wall_busy; // backlogged time in the model and on the clock
	int64_t model_until, wall_until; // how far these have been counted
	int64_t first_posted, last_visible;
	int64_t distortion;
	uint64_t stalls;
	uint64_t aborted; // messages in flight when a connection ended
	uint64_t held_sends; // sends that were complete in the model while the ring had no space for their bytes
	uint64_t broken; // ends of connections that failed because the path was down for longer than the transport
			 // allows
	// Of a link between switches: what flows with a path of their own sent over it, counted when it is received.
	uint64_t carried_messages, carried_bytes;
	// Of the hop, used by Go only: when the job was made, and when its last rank had left.
	struct ddlemu_pauses start, end;
};

// Bounds of struct ddlemu_gpu.
#define DDLEMU_NAME 64 // with the final zero
#define DDLEMU_GRAPH_GPUS 20

// The kind of GPU that the software CUDA shows. All of it is 0 if the fabric names none.
struct ddlemu_gpu {
	char name[DDLEMU_NAME], product[DDLEMU_NAME];
	uint64_t memory; // bytes
	uint32_t capability; // 90 is 9.0
	uint32_t sms;
	uint32_t pcie_generation, pcie_lanes;
	uint32_t nvlink_generation, nvlinks, nvlink_mbps; // MB/s of one link in one direction
	uint32_t switched; // 1: the NVLinks go to NVSwitches; 0: from GPU to GPU, as between says
	uint32_t c2c_links, c2c_mbps; // MB/s of one link in one direction
	uint32_t nvlink_domain; // GPUs; 0: the GPUs of a node
	uint32_t gpus; // that a node has
	uint8_t between[DDLEMU_GRAPH_GPUS][DDLEMU_GRAPH_GPUS]; // NVLinks
};

struct ddlemu_header {
	uint64_t magic;
	uint32_t version, layout;
	uint64_t file_size;
	uint8_t boot_id[16];
	uint64_t time_namespace;
	uint32_t uid, closed; // closed: atomic, the fabric has been taken down
	int64_t created;
	uint64_t fabric_id;
	uint64_t seed;
	uint32_t time_scale, nodes, gpus_per_node, nics_per_node;
	uint32_t hops, links, paths, blocks, jobs, participants, events, config_len;
	uint64_t hops_off, paths_off, blocks_off, jobs_off, link_stats_off, participants_off, events_off, tables_off,
		config_off;
	struct ddlemu_transport transport;
	uint64_t next_event; // atomic
	char name[DDLEMU_NAME];
	char profile[DDLEMU_NAME];
	char shaper[DDLEMU_NAME]; // of the kernel datapath, written once by its daemon
	uint64_t followed; // by that daemon, atomic: changes << 1, and whether they are in force
	uint64_t snapshots_off, clock_off; // clock_off: of struct ddlemu_clock
	uint32_t snapshots; // used by Go only
	uint32_t virtual_clock; // 1: time is virtual; 0: time is CLOCK_MONOTONIC
	uint32_t flow_paths; // 1: each flow has a path of its own; 0: all flows of two NICs have the path of the table
	uint32_t node_rows; // of node_stats, of a job
	uint64_t lock_uses[2]; // used by Go only, atomic: how often each lock was acquired
	struct ddlemu_gpu gpu;
	struct ddlemu_node_time node_time;
	uint64_t node_stats_off; // of struct ddlemu_link_stats, see Job.NodeStatsOffset
	uint64_t planned_off; // of struct ddlemu_planned_change, in the order of their times
	uint32_t planned, unused;
};

#endif
