// SPDX-License-Identifier: Apache-2.0
//
// The layout tables against fake_nccl.h's structs, and those against the sizes and offsets that a program printed which
// was compiled with the headers of the NCCL version; the function numbers against those of NCCL's generator.
#include "layout.h"

#include "fake_nccl.h"
#include "fake_world.h"

namespace test {
namespace {

#define AT(struct, field) static_cast<uint32_t>(offsetof(struct, field))
#define SAME(a, b) same(l.version, #a, a, static_cast<uint32_t>(b))

void same(int version, const char *what, uint32_t got, uint32_t want)
{
	CHECK(got == want, "NCCL %d, %s: %u, want %u", version, what, got, want);
}

// What is the same in all versions.
void common(const softexec::Layout &l)
{
	SAME(l.args_comm, 0), SAME(l.args_channel_mask, AT(fake::Args, channel_mask)),
		SAME(l.args_storage, AT(fake::Args, storage));
	SAME(l.args_work_mask, AT(fake::Args, work_mask)), SAME(l.args_work_buf, AT(fake::Args, work_buf)),
		SAME(l.args_size, sizeof(fake::Args));
	SAME(l.batch_base, AT(fake::BatchHead, base)), SAME(l.batch_bitset, AT(fake::BatchHead, bitset)),
		SAME(l.batch_size, sizeof(fake::BatchHead));
	SAME(l.peer_send, AT(fake::Peer, send)), SAME(l.peer_recv, AT(fake::Peer, recv)),
		SAME(l.conn_size, sizeof(fake::Conn));
	SAME(l.conn_buffs, AT(fake::Conn, buffs)), SAME(l.conn_tail, AT(fake::Conn, tail)),
		SAME(l.conn_head, AT(fake::Conn, head));
	SAME(l.conn_flags, AT(fake::Conn, flags)), SAME(l.conn_step_size, AT(fake::Conn, step_size)),
		SAME(l.conn_fifo, AT(fake::Conn, fifo));
	SAME(l.conn_step, AT(fake::Conn, step)), SAME(l.conn_net_device, AT(fake::Conn, net_device.type));
	SAME(l.fifo_mode, AT(fake::Fifo, mode)), SAME(l.fifo_offset, AT(fake::Fifo, offset)),
		SAME(l.fifo_size, AT(fake::Fifo, size));
	SAME(l.fifo_entry, sizeof(fake::Fifo));
	SAME(l.p2p_send_addr, AT(fake::P2p, send)), SAME(l.p2p_recv_addr, AT(fake::P2p, recv)),
		SAME(l.p2p_send_bytes, AT(fake::P2p, send_bytes));
	SAME(l.p2p_recv_bytes, AT(fake::P2p, recv_bytes)), SAME(l.p2p_send_rank, AT(fake::P2p, send_rank));
	SAME(l.p2p_recv_rank, AT(fake::P2p, recv_rank)), SAME(l.p2p_channels, AT(fake::P2p, channels)),
		SAME(l.p2p_base, AT(fake::P2p, base));
	SAME(l.p2p_send_channels, AT(fake::P2p, send_channels)),
		SAME(l.p2p_recv_channels, AT(fake::P2p, recv_channels));
	SAME(l.p2p_send_chunk, AT(fake::P2p, send_chunk)), SAME(l.p2p_recv_chunk, AT(fake::P2p, recv_chunk));
	SAME(l.p2p_bits, AT(fake::P2p, recv_chunk) + 1), SAME(l.p2p_size, sizeof(fake::P2p));
}

template <typename All, typename Channel, typename Comm, typename Coll>
void versioned(const softexec::Layout &l)
{
	SAME(l.comm_rank, AT(Comm, rank)), SAME(l.comm_nranks, AT(Comm, nranks)),
		SAME(l.comm_buff_sizes, AT(Comm, buff_sizes));
	SAME(l.comm_p2p_chunk, AT(Comm, p2p_chunk)), SAME(l.comm_abort, AT(Comm, abort));
	SAME(l.channels, AT(All, channels)), SAME(l.channel_size, sizeof(Channel));
	SAME(l.ch_peers, AT(Channel, peers)), SAME(l.ch_ring_prev, AT(Channel, ring.prev)),
		SAME(l.ch_ring_next, AT(Channel, ring.next));
	SAME(l.ch_ring_ranks, AT(Channel, ring.ranks)), SAME(l.ch_ring_index, AT(Channel, ring.index));
	SAME(l.ch_tree_up, AT(Channel, tree.up)), SAME(l.ch_tree_down, AT(Channel, tree.down));
	SAME(l.coll_bits, 0), SAME(l.coll_root, AT(Coll, root)), SAME(l.coll_recv, AT(Coll, recv)),
		SAME(l.coll_send, AT(Coll, send));
	SAME(l.coll_count_lo, AT(Coll, counts.lo)), SAME(l.coll_count_mid, AT(Coll, counts.mid)),
		SAME(l.coll_count_hi, AT(Coll, counts.hi));
	SAME(l.coll_grains, AT(Coll, counts.hi) + 8), SAME(l.coll_arg, AT(Coll, arg)), SAME(l.coll_size, sizeof(Coll));
}

// Printed by a program with NCCL's own headers.
static_assert(
	sizeof(fake::Conn) == 152 && sizeof(fake::Peer) == 608 && sizeof(fake::Fifo) == 24 && sizeof(fake::P2p) == 48);
static_assert(offsetof(fake::Conn, fifo) == 96 && offsetof(fake::Conn, step) == 104 &&
	offsetof(fake::Conn, net_device) == 120);
static_assert(offsetof(fake::P2p, send_rank) == 32 && offsetof(fake::P2p, channels) == 40);
static_assert(sizeof(fake::v2_22_3::Channel) == 368 && sizeof(fake::v2_22_3::Comm) == 64 &&
	sizeof(fake::v2_22_3::All) == 11840);
static_assert(offsetof(fake::v2_22_3::Channel, tree) == 32 && offsetof(fake::v2_22_3::Channel, fifo_done) == 352);
static_assert(offsetof(fake::v2_22_3::Comm, consumed) == 32 && offsetof(fake::v2_22_3::Comm, abort) == 48);
static_assert(sizeof(fake::v2_22_3::Coll) == 64 && offsetof(fake::v2_22_3::Coll, arg) == 56);
static_assert(sizeof(fake::v2_29_7::Channel) == 368 && sizeof(fake::v2_29_7::Comm) == 88 &&
	sizeof(fake::v2_29_7::All) == 23648);
static_assert(offsetof(fake::v2_29_7::Channel, tree) == 40 && offsetof(fake::v2_29_7::Channel, counter) == 360);
static_assert(offsetof(fake::v2_29_7::Comm, abort) == 48 && offsetof(fake::v2_29_7::Comm, started) == 72);
static_assert(sizeof(fake::v2_29_7::Coll) == 96 && offsetof(fake::v2_29_7::Coll, counts) == 56 &&
	offsetof(fake::v2_29_7::Coll, arg) == 88);
static_assert(sizeof(fake::v2_29_7::Bcast) == 48 && sizeof(fake::v2_29_7::Profiler) == 1024);

// A set bit in a struct, as the launch reader sees it.
template <typename T, typename F>
uint32_t bits_of(F set, uint32_t off)
{
	T w = {};
	set(w);
	return softexec::get<uint32_t>(&w, off);
}

uint32_t refused(const softexec::Refusal (&list)[4])
{
	uint32_t all = 0;
	for (const auto &r : list)
		all |= r.mask;
	return all;
}

void refusal_bits()
{
	const softexec::Layout &a = *softexec::layout_for(22203), &b = *softexec::layout_for(22907);
	using C22 = fake::v2_22_3::Coll;
	using C29 = fake::v2_29_7::Coll;
	CHECK(refused(a.coll_refuse) == bits_of<C22>([](C22 &w) { w.reg = 3; }, 0), "2.22.3 regUsed");
	CHECK(refused(b.coll_refuse) == bits_of<C29>([](C29 &w) { w.reg = w.net_reg = 1; }, 0),
		"2.29.7 regUsed, netRegUsed");
	CHECK(b.coll_profiler == bits_of<C29>([](C29 &w) { w.profiled = 1; }, 0), "2.29.7 profilerEnabled");
	auto p2p = [](auto set) { return bits_of<fake::P2p>(set, 44) >> 16 & 0xff; };
	CHECK(refused(a.p2p_refuse) == p2p([](fake::P2p &w) { w.reg = 3; }), "2.22.3 registered Send/Recv");
	CHECK(refused(b.p2p_refuse) == p2p([](fake::P2p &w) { w.reg = w.ipc = 3; }), "2.29.7 registered Send/Recv");
	CHECK(b.p2p_profiler == p2p([](fake::P2p &w) { w.profiled = 1; }), "2.29.7 profiled Send/Recv");
}

// The whole list's hash (FNV-1a over "NUMBER NAME KERNEL\n") and samples. The lists were once compared line by line
// with the tables that NCCL's generate.py writes.
void numbers()
{
	const struct {
		int version;
		size_t count;
		uint64_t hash;
		size_t number;
		const char *name;
	} want[] = {
		{ 22203, 555, 0x9339c9e49acf175c, 250, "AllReduce_Sum_u8_TREE_LL" },
		{ 22907, 673, 0x37a4d5a69c192e16, 2, "AllGather_PAT_SIMPLE" },
	};
	for (const auto &w : want) {
		const auto &list = softexec::functions(*softexec::layout_for(w.version));
		uint64_t hash = 0xcbf29ce484222325;
		for (size_t i = 0; i < list.size(); i++) {
			for (char c : std::to_string(i) + " " + list[i].name + " " + list[i].kernel + "\n")
				hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
		}
		CHECK(list.size() == w.count && hash == w.hash, "NCCL %d: %zu functions, hash %#lx", w.version,
			list.size(), hash);
		CHECK(w.number < list.size() && list[w.number].name == w.name, "NCCL %d: function %zu is not %s",
			w.version, w.number, w.name);
	}
}

} // namespace

void layout_tests()
{
	for (int version : { 22203, 22907 })
		common(*softexec::layout_for(version));
	using namespace fake;
	versioned<v2_22_3::All, v2_22_3::Channel, v2_22_3::Comm, v2_22_3::Coll>(*softexec::layout_for(22203));
	versioned<v2_29_7::All, v2_29_7::Channel, v2_29_7::Comm, v2_29_7::Coll>(*softexec::layout_for(22907));
	{
		const softexec::Layout &l = *softexec::layout_for(22203);
		SAME(l.comm_consumed, AT(v2_22_3::Comm, consumed)), SAME(l.comm_started, softexec::kAbsent),
			SAME(l.ch_counter, softexec::kAbsent);
	}
	const softexec::Layout &l = *softexec::layout_for(22907);
	SAME(l.comm_consumed, softexec::kAbsent), SAME(l.comm_started, AT(v2_29_7::Comm, started));
	SAME(l.comm_completed, AT(v2_29_7::Comm, completed)), SAME(l.ch_counter, AT(v2_29_7::Channel, counter));
	SAME(l.bcast_depth, AT(v2_29_7::Bcast, depth)), SAME(l.bcast_chunk, AT(v2_29_7::Bcast, chunk)),
		SAME(l.bcast_send, AT(v2_29_7::Bcast, send));
	SAME(l.bcast_recv, AT(v2_29_7::Bcast, recv)), SAME(l.bcast_bytes, AT(v2_29_7::Bcast, bytes)),
		SAME(l.bcast_done, AT(v2_29_7::Bcast, done));
	SAME(l.bcast_size, sizeof(v2_29_7::Bcast));
	refusal_bits();
	numbers();
	CHECK(softexec_version(22304) == -1 && softexec_version(23007) == -1 && softexec_version(0) == -1,
		"unknown versions must be refused");
}

} // namespace test
