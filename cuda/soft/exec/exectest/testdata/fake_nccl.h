// SPDX-License-Identifier: Apache-2.0
//
// For tests: NCCL's device structures as structs, independent of the layout table, which is compared with them. Structs
// that differ between versions are in a namespace of the version.
#ifndef DDLEMU_SOFT_EXEC_FAKE_NCCL_H
#define DDLEMU_SOFT_EXEC_FAKE_NCCL_H

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace fake {

struct Fifo {
	int mode, offset;
	ssize_t size;
	void *ptr;
};

struct Conn {
	char *buffs[3];
	void *mhandles[3];
	uint64_t *tail, *head;
	int flags, shared, step_size;
	void **ptr_exchange;
	uint64_t *arg_exchange;
	Fifo *fifo;
	uint64_t step, last_cleaning;
	struct {
		int type, version;
		void *handle;
		size_t size;
		int needs_proxy;
	} net_device;
};

struct Peer {
	Conn send[2], recv[2];
};

struct Tree {
	int depth, up, down[3];
};

struct Direct {
	int depth, out, heads, head, shift, list[8], up[7], down[7];
};

struct Nvls {
	int out, heads, head, up[32], down, tree_up, tree_down[3];
};

struct alignas(16) Args {
	void *comm;
	uint64_t channel_mask;
	uint8_t storage;
	uint32_t work_mask;
	void *work_buf;
};

struct alignas(16) BatchHead {
	uint32_t jump : 14, extends : 1, type : 2, func : 15;
	uint32_t base;
	uint64_t bitset;
};

struct Counts {
	size_t lo, mid, hi;
	uint64_t grains_lo : 21, grains_mid : 21, grains_hi : 21;
};

struct alignas(16) P2p {
	void *send, *recv;
	size_t send_bytes, recv_bytes;
	int send_rank, recv_rank;
	uint8_t channels, base, send_channels, recv_channels, send_chunk, recv_chunk;
	uint8_t send_ll : 1, recv_ll : 1, reg : 2, ipc : 2, profiled : 1;
};

namespace v2_22_3 {
struct Ring {
	int prev, next;
	int *ranks;
	int index;
};
struct alignas(16) Channel {
	Peer **peers;
	Ring ring;
	Tree tree, collnet_chain;
	Direct collnet_direct;
	Nvls nvls;
	int node, nnodes; // of nvls
	uint32_t *fifo_done;
};
struct Comm {
	int rank, nranks, node, nnodes, buff_sizes[3], p2p_chunk;
	uint32_t *consumed;
	int *dense_to_user;
	uint32_t *abort;
	Channel *channels;
};
struct alignas(16) All {
	Comm comm;
	Channel channels[32];
};
struct alignas(16) Coll {
	uint32_t channel_lo : 8, channel_hi : 8, warps : 8, arg_is_ptr : 1, reg : 2, one_node : 1, direct : 4;
	uint32_t root;
	void *recv, *send;
	Counts counts;
	uint64_t arg;
};
} // namespace v2_22_3

namespace v2_29_7 {
struct Ring {
	int prev, next;
	int *ranks, *rank_to_index;
	int index;
};
struct alignas(16) Channel {
	Peer **peers;
	Ring ring;
	Tree tree, collnet_chain;
	Direct collnet_direct;
	Nvls nvls;
	uint32_t *fifo_done;
	uint64_t counter;
};
struct Profiler {
	struct {
		uint64_t counter, time;
	} data[64];
};
struct Comm {
	int rank, nranks, node, nnodes, buff_sizes[3], p2p_chunk, all_nvlink;
	int *dense_to_user;
	uint32_t *abort;
	Channel *channels;
	int *rank_to_local;
	Profiler *started, *completed;
};
struct alignas(16) All {
	Comm comm;
	Channel channels[64];
};
struct alignas(16) Coll {
	uint32_t channel_lo : 8, channel_hi : 8, warps : 8, arg_is_ptr : 1, reg : 1, net_reg : 1, one_node : 1,
		direct : 2, one_rpn : 1, profiled : 1;
	uint32_t root;
	void *recv, *send;
	uintptr_t send_offset, recv_offset;
	uintptr_t *send_remote, *recv_remote;
	Counts counts;
	uint64_t arg;
};
struct alignas(16) Bcast {
	int depth, chunk;
	void *send, *recv;
	size_t bytes, done;
	char pad[8];
};
} // namespace v2_29_7

} // namespace fake

#endif
