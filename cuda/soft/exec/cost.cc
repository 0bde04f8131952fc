// SPDX-License-Identifier: Apache-2.0
#include "cost.h"

#include <atomic>
#include <cstdio>

namespace softexec {
namespace {

std::atomic<bool> has_failed{ false };

void fail(const char *why)
{
	if (!has_failed.exchange(true))
		std::fprintf(stderr, "ddlemu: software CUDA: %s\n", why);
}

} // namespace

const ddlemu_node_cost *collective_cost(Proto proto)
{
	const ddlemu_node_time *t = node_time();
	if (!t)
		return nullptr;
	return proto == kLL ? &t->ll : proto == kLL128 ? &t->ll128 : &t->simple;
}

P2pCost p2p_cost(Proto proto, const Layout &l, const char *conn, int channels)
{
	const ddlemu_node_time *t = node_time();
	if (!t)
		return {};
	if (proto == kLL)
		return { &t->ll };
	const ddlemu_send_cost &net = t->send_net;
	const bool has_own = net.action.step != 0 || net.action.per_byte != 0 || net.action.links != 0 ||
		net.per_channel != 0 || net.start != 0;
	if (!has_own || get<char *>(conn, l.conn_fifo) == nullptr)
		return { &t->send };
	return { &net.action, channels * net.per_channel, net.start };
}

bool Direct::failed() { return has_failed.load(std::memory_order_relaxed); }

void Direct::send(uint64_t bytes, int64_t written)
{
	const ddlemu_node_calls *node = node_calls();
	uint64_t flow = __atomic_load_n(&words_[0], __ATOMIC_RELAXED);
	if (flow == 0) {
		flow = node->direct_make(&ends_);
		if (flow == 0)
			return fail("no place for one more connection within a node: a fabric has at most 16384 (or "
				    "its folder is full, see df)");
		__atomic_store_n(&words_[0], flow, __ATOMIC_RELEASE);
	}
	if (!node->direct_post(flow, node_on_link(cost_, bytes), written))
		fail("a message between two GPUs of a node could not be sent: their connection is gone, full or "
		     "broken");
}

bool Direct::is_here()
{
	const ddlemu_node_calls *node = played_calls();
	if (!node)
		return find_arrived();
	if (seen_ > words_[1])
		return true;
	if (wanted_ == 0)
		wanted_ = node->now();
	if (!find_arrived())
		return false;
	node->direct_received(__atomic_load_n(&words_[0], __ATOMIC_ACQUIRE), words_[1], wanted_);
	seen_ = words_[1] + 1;
	wanted_ = 0;
	return true;
}

bool Direct::find_arrived()
{
	if (arrived_ > words_[1])
		return true;
	const uint64_t flow = __atomic_load_n(&words_[0], __ATOMIC_ACQUIRE);
	if (flow == 0)
		return false;
	arrived_ = node_calls()->direct_arrived(flow, words_[1]);
	if (arrived_ == DDLEMU_DIRECT_BROKEN) {
		fail("a connection between two GPUs of a node is broken: the fabric's memory is corrupt, or a rank died "
		     "while it ran the virtual clock");
		arrived_ = 0;
	}
	return arrived_ > words_[1];
}

std::vector<int> ranks_on_node(const Comm &c, int gpus)
{
	std::vector<int> local;
	for (int r = 0; r < c.nranks; r++) {
		if (c.members[static_cast<size_t>(r)] / gpus == c.members[static_cast<size_t>(c.rank)] / gpus)
			local.push_back(r);
	}
	return local;
}

Direct direct_flow(const Comm &c, const PeerConn &conn, char *words, int peer, int channel, bool sends,
	const ddlemu_node_cost *cost)
{
	const bool through_proxy = get<char *>(conn.conn, c.layout->conn_fifo) != nullptr;
	if (!node_time() || through_proxy || peer == c.rank)
		return {};
	const auto own = static_cast<uint32_t>(c.members[static_cast<size_t>(c.rank)]);
	const auto other = static_cast<uint32_t>(c.members[static_cast<size_t>(peer)]);
	ddlemu_direct_ends ends = {};
	ends.src = sends ? own : other, ends.dst = sends ? other : own;
	ends.comm = c.number;
	ends.kind = conn.kind;
	ends.channel = static_cast<uint32_t>(channel);
	ends.p2p = conn.p2p;
	return { words, ends, cost };
}

} // namespace softexec
