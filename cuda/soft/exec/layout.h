// SPDX-License-Identifier: Apache-2.0
//
// Where the executor finds things in NCCL's device structures: one table per supported NCCL version.
// All offsets and sizes are in bytes, for 64-bit little-endian Linux.
#ifndef DDLEMU_SOFT_EXEC_LAYOUT_H
#define DDLEMU_SOFT_EXEC_LAYOUT_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace softexec {

constexpr int kSteps = 8; // slots of a connection's ring buffer
constexpr int kProtos = 3; // LL, LL128, Simple, in this order
constexpr uint32_t kAbsent = ~0u; // this version has no such field

// What a set bit in a work structure stands for. Only bits that the executor must notice are listed.
struct Refusal {
	uint32_t mask;
	const char *what; // for the message; null ends the list
};

struct Layout {
	int version; // as ncclGetVersion reports it

	// How the device code of this version behaves.
	bool recv_writes_size; // Simple: the receiving side writes its slot's size, too
	bool post_div_has_sign; // SumPostDiv's argument is divisor*2+signed, else the type tells the sign
	bool p2p_reverses_bits; // a channel's part of a Send/Recv is the bit reversal of its distance from the base
	bool has_pat; // knows the PAT algorithm
	bool has_gather_v; // knows the batched broadcast
	bool has_fp8; // knows the 8-bit float types
	bool direct_without_reg; // kConnDirect* changes the protocol even for buffers that aren't registered
	int max_channels;

	// Kernel arguments: a header, then the work batches.
	uint32_t args_comm, args_channel_mask, args_storage, args_work_mask, args_work_buf, args_size;
	uint32_t batch_flags, batch_base, batch_bitset, batch_size;

	// The communicator and its channels, which lie behind it in the same block.
	uint32_t comm_rank, comm_nranks, comm_buff_sizes, comm_p2p_chunk, comm_abort, comm_consumed, comm_started,
		comm_completed;
	uint32_t channels, channel_size;
	uint32_t ch_peers, ch_ring_prev, ch_ring_next, ch_ring_ranks, ch_ring_index, ch_tree_up, ch_tree_down,
		ch_counter;

	// One peer: two send and two receive connections.
	uint32_t peer_send, peer_recv, conn_size;
	uint32_t conn_buffs, conn_tail, conn_head, conn_flags, conn_step_size, conn_fifo, conn_step, conn_net_device;
	uint32_t fifo_mode, fifo_offset, fifo_size, fifo_entry;

	// Work structures.
	uint32_t coll_bits, coll_root, coll_recv, coll_send, coll_count_lo, coll_count_mid, coll_count_hi, coll_grains,
		coll_arg, coll_size;
	uint32_t p2p_send_addr, p2p_recv_addr, p2p_send_bytes, p2p_recv_bytes, p2p_send_rank, p2p_recv_rank;
	uint32_t p2p_channels, p2p_base, p2p_send_channels, p2p_recv_channels, p2p_send_chunk, p2p_recv_chunk, p2p_bits,
		p2p_size;
	uint32_t bcast_depth, bcast_chunk, bcast_send, bcast_recv, bcast_bytes, bcast_done,
		bcast_size; // if has_gather_v
	uint32_t coll_profiler, p2p_profiler; // bit that asks for the device profiler, or 0
	Refusal coll_refuse[4];
	Refusal p2p_refuse[4];
};

// Bits of a connection's flags that matter here. The first two have the same value in every supported version.
constexpr int kConnDirectWrite = 0x01;
constexpr int kConnDirectRead = 0x02;

// A connection's net device type that means "the kernel unpacks what arrived".
constexpr int kNetDeviceUnpack = 1;

// The table for an NCCL version, or null if there is none.
const Layout *layout_for(int nccl_version);

// Reads a T at byte offset off of p; p need not be aligned.
template <typename T>
T get(const void *p, uint32_t off)
{
	T v;
	std::memcpy(&v, static_cast<const char *>(p) + off, sizeof v);
	return v;
}

// Writes a T at byte offset off of p.
template <typename T>
void put(void *p, uint32_t off, T v)
{
	std::memcpy(static_cast<char *>(p) + off, &v, sizeof v);
}

} // namespace softexec

#endif
