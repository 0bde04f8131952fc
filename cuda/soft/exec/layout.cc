// SPDX-License-Identifier: Apache-2.0
#include "layout.h"

#include "exec.h"

namespace softexec {
namespace {

// The fields that are the same in all supported versions.
Layout common()
{
	Layout l = {};
	l.args_comm = 0, l.args_channel_mask = 8, l.args_storage = 16;
	l.args_work_mask = 20, l.args_work_buf = 24, l.args_size = 32;
	l.batch_flags = 0, l.batch_base = 4, l.batch_bitset = 8, l.batch_size = 16;

	l.comm_rank = 0, l.comm_nranks = 4, l.comm_buff_sizes = 16, l.comm_p2p_chunk = 28, l.comm_abort = 48;
	l.comm_consumed = l.comm_started = l.comm_completed = l.ch_counter = kAbsent;
	l.channel_size = 368;
	l.ch_peers = 0, l.ch_ring_prev = 8, l.ch_ring_next = 12, l.ch_ring_ranks = 16;
	l.nvls_heads = 4, l.nvls_head_rank = 8, l.nvls_up = 12, l.nvls_down = 140;
	l.nvls_tree_up = 144, l.nvls_tree_down = 148;

	l.peer_send = 0, l.peer_recv = 304, l.conn_size = 152;
	l.conn_buffs = 0, l.conn_tail = 48, l.conn_head = 56, l.conn_flags = 64;
	l.conn_step_size = 72, l.conn_fifo = 96, l.conn_step = 104, l.conn_net_device = 120;
	l.fifo_mode = 0, l.fifo_offset = 4, l.fifo_size = 8, l.fifo_entry = 24;

	l.coll_one_node = 1 << 27;
	l.coll_bits = 0, l.coll_root = 4, l.coll_recv = 8, l.coll_send = 16;
	l.p2p_send_addr = 0, l.p2p_recv_addr = 8, l.p2p_send_bytes = 16, l.p2p_recv_bytes = 24;
	l.p2p_send_rank = 32, l.p2p_recv_rank = 36, l.p2p_channels = 40, l.p2p_base = 41;
	l.p2p_send_channels = 42, l.p2p_recv_channels = 43, l.p2p_send_chunk = 44, l.p2p_recv_chunk = 45;
	l.p2p_bits = 46, l.p2p_size = 48;
	return l;
}

// Sets the fields of a collective's work from its counts on: off is the offset of the first count.
void set_coll_counts(Layout &l, uint32_t off)
{
	l.coll_count_lo = off, l.coll_count_mid = off + 8, l.coll_count_hi = off + 16, l.coll_grains = off + 24;
	l.coll_arg = off + 32, l.coll_size = off + 40;
}

Layout v2_22_3()
{
	Layout l = common();
	l.version = 22203;
	l.recv_writes_size = true;
	l.p2p_reverses_bits = true;
	l.direct_without_reg = true;
	l.nvls_align = 16;
	l.nvls_words = 1 << 20; // head and tail fill 16 bytes; all of them together take a small part of 2 MiB
	l.max_channels = 32;
	l.comm_consumed = 32;
	l.channels = 64;
	l.ch_ring_index = 24, l.ch_tree_up = 36, l.ch_tree_down = 40, l.ch_nvls = 180;
	set_coll_counts(l, 24);
	l.coll_unsupported[0] = { 0x06000000, "registered user buffers (regUsed)" };
	l.p2p_unsupported[0] = { 0x0c, "registered user buffers of Send/Recv (sendRegistered, recvRegistered)" };
	return l;
}

Layout v2_29_7()
{
	Layout l = common();
	l.version = 22907;
	l.post_div_has_sign = true;
	l.has_pat = l.has_gather_v = l.has_fp8 = true;
	l.multicast_sums_in_f32 = true;
	l.nvls_align = 16384;
	l.nvls_words = 8; // head and tail have 32 bytes each
	l.max_channels = 64;
	l.comm_started = 72, l.comm_completed = 80;
	l.channels = 96;
	l.ch_ring_index = 32, l.ch_tree_up = 44, l.ch_tree_down = 48, l.ch_nvls = 188, l.ch_counter = 360;
	set_coll_counts(l, 56);
	l.bcast_depth = 0, l.bcast_chunk = 4, l.bcast_send = 8, l.bcast_recv = 16;
	l.bcast_bytes = 24, l.bcast_done = 32, l.bcast_size = 48;
	l.coll_profiler = 0x80000000, l.p2p_profiler = 0x40;
	l.coll_unsupported[0] = { 0x02000000, "registered user buffers (regUsed)" };
	l.coll_unsupported[1] = { 0x04000000, "user buffers registered with the net plugin (netRegUsed)" };
	l.p2p_unsupported[0] = { 0x0c, "Send/Recv buffers registered with the net plugin (sendNetReg, recvNetReg)" };
	l.p2p_unsupported[1] = { 0x30, "Send/Recv buffers registered for direct P2P (sendIpcReg, recvIpcReg)" };
	return l;
}

} // namespace

const Layout *layout_for(int nccl_version)
{
	static const Layout tables[] = { v2_22_3(), v2_29_7() };
	for (const Layout &l : tables) {
		if (l.version == nccl_version)
			return &l;
	}
	return nullptr;
}

} // namespace softexec

extern "C" int softexec_supports(int nccl_version) { return softexec::layout_for(nccl_version) != nullptr; }
