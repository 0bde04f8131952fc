// SPDX-License-Identifier: Apache-2.0
//
// The mapped file of a fabric that is up, as C sees it. layout.go is the same in
// Go; a test in nccl-plugin/transport/shm holds every offset of the two together.
// All fields are little-endian; times are nanoseconds of CLOCK_MONOTONIC, already
// multiplied by the time scale unless their name says "stated".
#ifndef DDLEMU_STATE_LAYOUT_H
#define DDLEMU_STATE_LAYOUT_H

#include <stdint.h>

#define DDLEMU_STATE_VERSION 8

// Limits of the verdict on a message's lateness: a floor in scaled ns, and a part
// of the message's own time.
#define DDLEMU_P50_FLOOR 1000
#define DDLEMU_P50_PART 50
#define DDLEMU_P99_FLOOR 5000
#define DDLEMU_P99_PART 20
#define DDLEMU_MAX_HOPS 8
#define DDLEMU_JITTER_TABLE 4096
#define DDLEMU_SIZE_CLASSES 4
#define DDLEMU_LATE_BUCKETS 128

// One immutable block: what a hop does. A change writes a free block and then
// publishes its index in ddlemu_hop.params.
struct ddlemu_params {
	uint64_t ns_num, ns_den;
	int64_t latency;
	uint32_t jitter_kind, policy;
	int64_t jitter;
	uint64_t loss_p, loss_bad_p, good_to_bad, bad_to_good;
	int64_t queue_ns, ecn_ns;
	uint32_t payload, per_packet, segment, down;
	// What the user stated, for reading back.
	uint64_t stated_bandwidth;
	int64_t stated_latency, stated_jitter;
	double stated_loss_p, stated_bad_p, stated_good_to_bad, stated_bad_to_good;
	uint64_t stated_queue, stated_ecn;
	uint32_t stated_mtu, stated_header, stated_framing, unused;
	int64_t retired; // when it was last in use, 0 = never
};

// One hop: a port or a link. Lines of 64 bytes: what is read on every segment,
// what is contended, what is counted.
struct ddlemu_hop {
	uint32_t id, kind, src, dst;
	uint32_t params; // atomic
	uint32_t changes; // times params was changed
	uint32_t unused0[10];
	int64_t next_free; // atomic
	int64_t host_free; // atomic; of the host at a port
	int64_t buffer; // atomic; of the buffer behind it
	uint64_t unused1[5];
	uint64_t bytes, wire, segments, drops; // atomic, all jobs
	int64_t busy_ns; // atomic
	uint64_t classes[3]; // atomic, payload by flow class; kernel datapath
	uint64_t marks, pauses; // atomic; of packets, and of holds by the next hop's queue
	int64_t paused_ns; // atomic
	uint64_t unused2[5];
};

// What one job did in one size class of one link.
struct ddlemu_class {
	uint64_t messages, bytes;
	uint64_t over_p50, over_p99; // messages later than the limits of the verdict
	int64_t sum_late, sum_time;
	int64_t max_late;
	uint32_t late[DDLEMU_LATE_BUCKETS]; // see state.Bucket
};

// What one job did on one link. All fields atomic.
struct ddlemu_cell {
	struct ddlemu_class size[DDLEMU_SIZE_CLASSES];
	int64_t model_busy, wall_busy; // backlogged time in the model and on the clock
	int64_t model_until, wall_until; // how far these have been counted
	int64_t first_posted, last_visible;
	int64_t distortion;
	uint64_t stalls;
	uint64_t aborted; // messages in flight when a connection ended
	uint64_t held_sends; // sends that were complete in the model while the ring had no room for them
};

struct ddlemu_transport {
	uint32_t kind, selective_repeat;
	uint64_t send_buffer, window;
	uint32_t congestion, unused;
	int64_t second;
	int64_t rto, down_timeout, overhead, gap;
	int64_t host_per_message;
	uint64_t host_ns_num, host_ns_den; // den 0: copies take no time
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
	uint64_t hops_off, paths_off, blocks_off, jobs_off, cells_off, participants_off, events_off, tables_off,
		config_off;
	struct ddlemu_transport transport;
	uint64_t next_event; // atomic
	char name[64];
	char profile[64];
	char shaper[64]; // of the kernel datapath, written once by its daemon
	uint64_t followed; // by that daemon, atomic: changes << 1, and whether they are in force
	uint64_t marks_off;
	uint32_t marks, unused; // Go's alone
};

#endif
