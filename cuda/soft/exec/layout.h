// SPDX-License-Identifier: Apache-2.0
//
// The memory layout of NCCL's device structures (src/include/device.h of an NCCL release): one table of offsets per
// supported version. All offsets and sizes are in bytes, for 64-bit little-endian Linux.
#ifndef DDLEMU_SOFT_EXEC_LAYOUT_H
#define DDLEMU_SOFT_EXEC_LAYOUT_H

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace softexec {

// Steps of a connection's ring buffer: NCCL_STEPS. A test of shaper/nccl/plan compares this and the constants of the
// protocols with the constants of the plan.
constexpr int kSteps = 8;
constexpr int kProtos = 3; // LL, LL128, Simple, in this order
constexpr uint32_t kAbsent = ~0u; // this version has no such field

// Bits of a work structure that ask for something the executor does not support.
struct UnsupportedBits {
	uint32_t mask;
	const char *what; // for the message; unused entries have mask 0
};

struct Layout {
	int version; // as ncclGetVersion reports it

	// What the device code of this version does.
	bool recv_writes_size; // Simple: a receiver writes the size to its connFifo entry, as senders do
	bool post_div_has_sign; // SumPostDiv's argument is divisor*2+signed; before, it is the divisor alone
	bool p2p_reverses_bits; // the index of a channel's Send/Recv share has its bits reversed
	bool has_pat; // has the PAT algorithm
	bool has_gather_v; // has AllGatherV, a batch of broadcasts
	bool has_fp8; // has the 8-bit float types
	bool direct_without_reg; // NCCL_DIRECT_WRITE changes the protocol even if the buffers are not registered
	bool multicast_sums_in_f32; // a read of multicast memory adds 16-bit floats in f32, and rounds once
	int nvls_align; // the last chunks of an AllReduce by NVLS are a multiple of so many bytes
	// Bytes from the tail of a connection of NVLS to two words behind it that NCCL does not use, see Direct.
	uint32_t nvls_words;
	int max_channels;

	// ncclDevKernelArgs, followed by ncclDevWorkBatch[].
	uint32_t args_comm, args_channel_mask, args_storage, args_work_mask, args_work_buf, args_size;
	uint32_t batch_flags, batch_base, batch_bitset, batch_size;

	// ncclDevComm and, behind it in the same block, its channels (ncclDevCommAndChannels).
	uint32_t comm_rank, comm_nranks, comm_buff_sizes, comm_p2p_chunk, comm_abort, comm_consumed, comm_started,
		comm_completed;
	uint32_t channels, channel_size;
	uint32_t ch_peers, ch_ring_prev, ch_ring_next, ch_ring_ranks, ch_ring_index, ch_tree_up, ch_tree_down, ch_nvls,
		ch_counter;
	uint32_t nvls_heads, nvls_head_rank, nvls_up, nvls_down, nvls_tree_up, nvls_tree_down; // from ch_nvls

	// ncclDevChannelPeer: two send and two receive connections (ncclConnInfo), and ncclConnFifo.
	uint32_t peer_send, peer_recv, conn_size;
	uint32_t conn_buffs, conn_tail, conn_head, conn_flags, conn_step_size, conn_fifo, conn_step, conn_net_device;
	uint32_t fifo_mode, fifo_offset, fifo_size, fifo_entry;

	// ncclDevWorkColl, ncclDevWorkP2p, ncclDevWorkBcast.
	uint32_t coll_bits, coll_root, coll_recv, coll_send, coll_count_lo, coll_count_mid, coll_count_hi, coll_grains,
		coll_arg, coll_size;
	uint32_t p2p_send_addr, p2p_recv_addr, p2p_send_bytes, p2p_recv_bytes, p2p_send_rank, p2p_recv_rank;
	uint32_t p2p_channels, p2p_base, p2p_send_channels, p2p_recv_channels, p2p_send_chunk, p2p_recv_chunk, p2p_bits,
		p2p_size;
	uint32_t bcast_depth, bcast_chunk, bcast_send, bcast_recv, bcast_bytes, bcast_done, bcast_size;
	uint32_t coll_one_node; // bit: all ranks are on one node
	uint32_t coll_profiler, p2p_profiler; // bit that asks for timestamps for the profiler, or 0
	UnsupportedBits coll_unsupported[4];
	UnsupportedBits p2p_unsupported[4];
};

// NCCL_DIRECT_WRITE in a connection's flags, in every supported version.
constexpr int kConnDirectWrite = 0x01;

// NCCL_NET_DEVICE_UNPACK: the kernel, not the network, unpacks the data that arrived.
constexpr int kNetDeviceUnpack = 1;

// Returns the table for an NCCL version, or null if there is none.
const Layout *layout_for(int nccl_version);

// Reads a T at byte offset off of p, which may be unaligned.
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
