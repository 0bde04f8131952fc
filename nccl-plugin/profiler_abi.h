// SPDX-License-Identifier: Apache-2.0
//
// NCCL's profiler plugin interface, versions 1 to 6: the layouts of the data symbols ncclProfiler_vN, with our names.
// Only the parts that the plugin reads. The sizes and offsets asserted below are from NCCL 2.23 to 2.30 on 64-bit
// machines.
#ifndef DDLEMU_PROFILER_ABI_H
#define DDLEMU_PROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

// Types of events, as bits of the mask.
enum {
	PROF_GROUP = 1 << 0,
	PROF_COLL = 1 << 1,
	PROF_P2P = 1 << 2,
	PROF_PROXY_OP = 1 << 3,
	PROF_PROXY_STEP = 1 << 4,
	PROF_KERNEL_CHANNEL = 1 << 6, // since version 3
};

// States of a step, and of a channel.
enum {
	PROF_SEND_WAIT = 9, // isend has given a request
	PROF_RECV_WAIT = 10, // irecv has given a request
	PROF_KERNEL_ENDED = 22, // since version 4, with struct prof_kernel_ended
};

// Collectives and sends: numbers in version 1, names later.
struct prof_coll_v1 {
	const char *comm_name;
	uint64_t comm, seq;
	uint8_t func;
	const void *send_buffer, *receive_buffer;
	size_t count;
	int root;
	uint8_t datatype;
	uint32_t op;
	size_t traffic;
	uint8_t channels, warps, algo, proto;
	int collnet, nvls;
};

struct prof_coll_v2 {
	const char *comm_name;
	uint64_t comm, seq;
	const char *func;
	const void *send_buffer, *receive_buffer;
	size_t count;
	int root;
	const char *datatype;
	size_t traffic;
	uint8_t channels, warps;
	const char *algo, *proto;
};

struct prof_coll_v3 {
	const char *comm_name;
	uint64_t comm, seq;
	const char *func;
	const void *send_buffer, *receive_buffer;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels, warps;
	const char *algo, *proto;
};

struct prof_coll_v4 { // also v5 and v6
	uint64_t seq;
	const char *func;
	const void *send_buffer, *receive_buffer;
	size_t count;
	int root;
	const char *datatype;
	uint8_t channels, warps;
	const char *algo, *proto;
	void *group; // since version 5; before, the event's parent is the group
};

struct prof_p2p_v1 {
	const char *comm_name;
	uint64_t comm;
	uint8_t func;
	const void *buffer;
	uint8_t datatype;
	size_t count;
	int peer;
};

struct prof_p2p_v2 { // also v3
	const char *comm_name;
	uint64_t comm;
	const char *func;
	const void *buffer;
	const char *datatype;
	size_t count;
	int peer;
};

struct prof_p2p_v4 { // also v5 and v6
	const char *func;
	const void *buffer;
	const char *datatype;
	size_t count;
	int peer;
	uint8_t channels;
	void *group; // as in prof_coll_v4
};

struct prof_proxy_op {
	int32_t pid; // of the process that has planned it
	uint8_t channel;
	int peer, steps, chunk, sends;
};

struct prof_kernel_channel {
	uint8_t channel;
	uint64_t begun; // since version 4: by the GPU's clock, ns
};

struct prof_kernel_ended {
	uint64_t ended; // by the GPU's clock, ns
};

// What an event is about. NCCL's type has 8 bits before version 5, and 64 bits since.
struct prof_event {
	uint64_t type;
	void *parent;
	int rank;
	union {
		struct prof_coll_v1 coll_v1;
		struct prof_coll_v2 coll_v2;
		struct prof_coll_v3 coll_v3;
		struct prof_coll_v4 coll_v4;
		struct prof_p2p_v1 p2p_v1;
		struct prof_p2p_v2 p2p_v2;
		struct prof_p2p_v4 p2p_v4;
		struct prof_proxy_op proxy_op;
		struct prof_kernel_channel kernel_channel;
	};
};

#define PROF_CALLS \
	int (*start_event)(void *context, void **handle, struct prof_event *); \
	int (*stop_event)(void *handle); \
	int (*record_state)(void *handle, int state, void *args); \
	int (*finalize)(void *context)

struct profiler_v1 { // also v2 and v3
	const char *name;
	int (*init)(void **context, int *mask);
	PROF_CALLS;
};

struct profiler_v4 {
	const char *name;
	int (*init)(void **context, int *mask, const char *comm_name, uint64_t comm, int nodes, int ranks, int rank,
		net_logger);
	PROF_CALLS;
};

struct profiler_v5 { // also v6
	const char *name;
	int (*init)(void **context, uint64_t comm, int *mask, const char *comm_name, int nodes, int ranks, int rank,
		net_logger);
	PROF_CALLS;
};

#define PROF_AT(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), "NCCL has " #field " elsewhere")
PROF_AT(prof_event, parent, 8);
PROF_AT(prof_event, rank, 16);
PROF_AT(prof_event, coll_v1, 24);
PROF_AT(prof_coll_v1, func, 24);
PROF_AT(prof_coll_v1, count, 48);
PROF_AT(prof_coll_v1, datatype, 60);
PROF_AT(prof_coll_v1, channels, 80);
PROF_AT(prof_coll_v1, algo, 82);
PROF_AT(prof_coll_v2, func, 24);
PROF_AT(prof_coll_v2, datatype, 64);
PROF_AT(prof_coll_v2, channels, 80);
PROF_AT(prof_coll_v2, algo, 88);
PROF_AT(prof_coll_v3, channels, 72);
PROF_AT(prof_coll_v3, algo, 80);
PROF_AT(prof_coll_v4, func, 8);
PROF_AT(prof_coll_v4, count, 32);
PROF_AT(prof_coll_v4, channels, 56);
PROF_AT(prof_coll_v4, algo, 64);
PROF_AT(prof_coll_v4, group, 80);
PROF_AT(prof_p2p_v1, func, 16);
PROF_AT(prof_p2p_v1, count, 40);
PROF_AT(prof_p2p_v2, count, 40);
PROF_AT(prof_p2p_v2, peer, 48);
PROF_AT(prof_p2p_v4, count, 24);
PROF_AT(prof_p2p_v4, peer, 32);
PROF_AT(prof_p2p_v4, group, 40);
PROF_AT(prof_proxy_op, channel, 4);
PROF_AT(prof_proxy_op, peer, 8);
PROF_AT(prof_proxy_op, sends, 20);
PROF_AT(prof_kernel_channel, begun, 8);

#endif
