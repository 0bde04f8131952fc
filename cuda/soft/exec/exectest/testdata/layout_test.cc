// SPDX-License-Identifier: Apache-2.0
//
// Compares the layout tables with the structs of fake_nccl.h, those structs with sizes and offsets from NCCL's headers,
// and the function numbers with those of NCCL's generate.py.
#include "layout.h"

#include <initializer_list>

#include "fake_nccl.h"
#include "fake_world.h"

namespace test {
namespace {

#define AT(struct, field) static_cast<uint32_t>(offsetof(struct, field))
#define FIELD(name, want) { #name, l.name, static_cast<uint32_t>(want) }

struct Field {
	const char *name;
	uint32_t got, want;
};

void check_fields(const softexec::Layout &l, std::initializer_list<Field> fields)
{
	for (const Field &f : fields)
		CHECK(f.got == f.want, "NCCL %d, %s: %u, want %u", l.version, f.name, f.got, f.want);
}

// The fields that are the same in all versions.
void common_fields(const softexec::Layout &l)
{
	const std::initializer_list<Field> fields = {
		FIELD(args_comm, 0),
		FIELD(args_channel_mask, AT(fake::Args, channel_mask)),
		FIELD(args_storage, AT(fake::Args, storage)),
		FIELD(args_work_mask, AT(fake::Args, work_mask)),
		FIELD(args_work_buf, AT(fake::Args, work_buf)),
		FIELD(args_size, sizeof(fake::Args)),
		FIELD(batch_base, AT(fake::BatchHead, base)),
		FIELD(batch_bitset, AT(fake::BatchHead, bitset)),
		FIELD(batch_size, sizeof(fake::BatchHead)),
		FIELD(peer_send, AT(fake::Peer, send)),
		FIELD(peer_recv, AT(fake::Peer, recv)),
		FIELD(conn_size, sizeof(fake::Conn)),
		FIELD(conn_buffs, AT(fake::Conn, buffs)),
		FIELD(conn_tail, AT(fake::Conn, tail)),
		FIELD(conn_head, AT(fake::Conn, head)),
		FIELD(conn_flags, AT(fake::Conn, flags)),
		FIELD(conn_step_size, AT(fake::Conn, step_size)),
		FIELD(conn_fifo, AT(fake::Conn, fifo)),
		FIELD(conn_step, AT(fake::Conn, step)),
		FIELD(conn_net_device, AT(fake::Conn, net_device.type)),
		FIELD(fifo_mode, AT(fake::Fifo, mode)),
		FIELD(fifo_offset, AT(fake::Fifo, offset)),
		FIELD(fifo_size, AT(fake::Fifo, size)),
		FIELD(fifo_entry, sizeof(fake::Fifo)),
		FIELD(nvls_heads, AT(fake::Nvls, heads)),
		FIELD(nvls_head_rank, AT(fake::Nvls, head)),
		FIELD(nvls_up, AT(fake::Nvls, up)),
		FIELD(nvls_down, AT(fake::Nvls, down)),
		FIELD(nvls_tree_up, AT(fake::Nvls, tree_up)),
		FIELD(nvls_tree_down, AT(fake::Nvls, tree_down)),
		FIELD(p2p_send_addr, AT(fake::P2p, send)),
		FIELD(p2p_recv_addr, AT(fake::P2p, recv)),
		FIELD(p2p_send_bytes, AT(fake::P2p, send_bytes)),
		FIELD(p2p_recv_bytes, AT(fake::P2p, recv_bytes)),
		FIELD(p2p_send_rank, AT(fake::P2p, send_rank)),
		FIELD(p2p_recv_rank, AT(fake::P2p, recv_rank)),
		FIELD(p2p_channels, AT(fake::P2p, channels)),
		FIELD(p2p_base, AT(fake::P2p, base)),
		FIELD(p2p_send_channels, AT(fake::P2p, send_channels)),
		FIELD(p2p_recv_channels, AT(fake::P2p, recv_channels)),
		FIELD(p2p_send_chunk, AT(fake::P2p, send_chunk)),
		FIELD(p2p_recv_chunk, AT(fake::P2p, recv_chunk)),
		FIELD(p2p_bits, AT(fake::P2p, recv_chunk) + 1),
		FIELD(p2p_size, sizeof(fake::P2p)),
	};
	check_fields(l, fields);
}

template <typename All, typename Channel, typename Comm, typename Coll>
void versioned_fields(const softexec::Layout &l)
{
	const std::initializer_list<Field> fields = {
		FIELD(comm_rank, AT(Comm, rank)),
		FIELD(comm_nranks, AT(Comm, nranks)),
		FIELD(comm_buff_sizes, AT(Comm, buff_sizes)),
		FIELD(comm_p2p_chunk, AT(Comm, p2p_chunk)),
		FIELD(comm_abort, AT(Comm, abort)),
		FIELD(channels, AT(All, channels)),
		FIELD(channel_size, sizeof(Channel)),
		FIELD(ch_peers, AT(Channel, peers)),
		FIELD(ch_ring_prev, AT(Channel, ring.prev)),
		FIELD(ch_ring_next, AT(Channel, ring.next)),
		FIELD(ch_ring_ranks, AT(Channel, ring.ranks)),
		FIELD(ch_ring_index, AT(Channel, ring.index)),
		FIELD(ch_tree_up, AT(Channel, tree.up)),
		FIELD(ch_tree_down, AT(Channel, tree.down)),
		FIELD(ch_nvls, AT(Channel, nvls)),
		FIELD(coll_bits, 0),
		FIELD(coll_root, AT(Coll, root)),
		FIELD(coll_recv, AT(Coll, recv)),
		FIELD(coll_send, AT(Coll, send)),
		FIELD(coll_count_lo, AT(Coll, counts.lo)),
		FIELD(coll_count_mid, AT(Coll, counts.mid)),
		FIELD(coll_count_hi, AT(Coll, counts.hi)),
		FIELD(coll_grains, AT(Coll, counts.hi) + 8),
		FIELD(coll_arg, AT(Coll, arg)),
		FIELD(coll_size, sizeof(Coll)),
	};
	check_fields(l, fields);
}

void fields_of_2_22()
{
	const softexec::Layout &l = *softexec::layout_for(22203);
	const std::initializer_list<Field> fields = {
		FIELD(comm_consumed, AT(fake::v2_22_3::Comm, consumed)),
		FIELD(comm_started, softexec::kAbsent),
		FIELD(ch_counter, softexec::kAbsent),
	};
	check_fields(l, fields);
}

void fields_of_2_29()
{
	using namespace fake::v2_29_7;
	const softexec::Layout &l = *softexec::layout_for(22907);
	const std::initializer_list<Field> fields = {
		FIELD(comm_consumed, softexec::kAbsent),
		FIELD(comm_started, AT(Comm, started)),
		FIELD(comm_completed, AT(Comm, completed)),
		FIELD(ch_counter, AT(Channel, counter)),
		FIELD(bcast_depth, AT(Bcast, depth)),
		FIELD(bcast_chunk, AT(Bcast, chunk)),
		FIELD(bcast_send, AT(Bcast, send)),
		FIELD(bcast_recv, AT(Bcast, recv)),
		FIELD(bcast_bytes, AT(Bcast, bytes)),
		FIELD(bcast_done, AT(Bcast, done)),
		FIELD(bcast_size, sizeof(Bcast)),
	};
	check_fields(l, fields);
}

// Printed by a program that was compiled with the headers of the NCCL version.
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

// Returns the word at an offset of a struct in which set has set some bits.
template <typename T, typename F>
uint32_t bits_of(F set, uint32_t off)
{
	T w = {};
	set(w);
	return softexec::get<uint32_t>(&w, off);
}

uint32_t all_bits(const softexec::UnsupportedBits (&list)[4])
{
	uint32_t all = 0;
	for (const auto &r : list)
		all |= r.mask;
	return all;
}

void unsupported_bits()
{
	const softexec::Layout &a = *softexec::layout_for(22203), &b = *softexec::layout_for(22907);
	using C22 = fake::v2_22_3::Coll;
	using C29 = fake::v2_29_7::Coll;
	CHECK(all_bits(a.coll_unsupported) == bits_of<C22>([](C22 &w) { w.reg = 3; }, 0), "2.22.3 regUsed");
	CHECK(all_bits(b.coll_unsupported) == bits_of<C29>([](C29 &w) { w.reg = w.net_reg = 1; }, 0),
		"2.29.7 regUsed, netRegUsed");
	CHECK(b.coll_profiler == bits_of<C29>([](C29 &w) { w.profiled = 1; }, 0), "2.29.7 profilerEnabled");
	auto p2p = [](auto set) { return bits_of<fake::P2p>(set, 44) >> 16 & 0xff; };
	CHECK(all_bits(a.p2p_unsupported) == p2p([](fake::P2p &w) { w.reg = 3; }), "2.22.3 registered Send/Recv");
	CHECK(all_bits(b.p2p_unsupported) == p2p([](fake::P2p &w) { w.reg = w.ipc = 3; }),
		"2.29.7 registered Send/Recv");
	CHECK(b.p2p_profiler == p2p([](fake::P2p &w) { w.profiled = 1; }), "2.29.7 profiled Send/Recv");
}

// The hash of the whole list (FNV-1a over "NUMBER NAME KERNEL\n") and one sample. The hashes are of the tables
// that NCCL's generate.py writes.
void function_numbers()
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
	using namespace fake;
	for (int version : { 22203, 22907 })
		common_fields(*softexec::layout_for(version));
	versioned_fields<v2_22_3::All, v2_22_3::Channel, v2_22_3::Comm, v2_22_3::Coll>(*softexec::layout_for(22203));
	versioned_fields<v2_29_7::All, v2_29_7::Channel, v2_29_7::Comm, v2_29_7::Coll>(*softexec::layout_for(22907));
	fields_of_2_22();
	fields_of_2_29();
	unsupported_bits();
	function_numbers();
	CHECK(softexec_select_version(22304) == -1 && softexec_select_version(23007) == -1 &&
			softexec_select_version(0) == -1,
		"unknown versions must be refused");
}

} // namespace test
