// SPDX-License-Identifier: Apache-2.0
//
// Selects the runners of a work: for the tree, PAT, Send/Recv, NVLS and the ring.
#include "algos.h"

#include <algorithm>

#include "cost.h"
#include "nvls.h"

namespace softexec {
namespace {

// The same primitive for every chunk. first has the addresses of the first element.
class PerChunk : public Schedule {
public:
	PerChunk(size_t count, size_t chunk, size_t elt, const Primitive &first)
		: remaining_(count), chunk_(chunk), elt_(elt), prim_(first)
	{
	}
	bool append_next(Primitives *list) override
	{
		if (remaining_ == 0)
			return false;
		prim_.n = std::min(chunk_, remaining_);
		list->push_back(prim_);
		if (prim_.src)
			prim_.src += prim_.n * elt_;
		if (prim_.dst)
			prim_.dst += prim_.n * elt_;
		remaining_ -= prim_.n;
		return true;
	}

private:
	size_t remaining_, chunk_, elt_;
	Primitive prim_;
};

// Chunks of bytes: at least one, also for 0 bytes, because the peer waits for a step.
class P2pChunks : public PerChunk {
public:
	P2pChunks(size_t bytes, size_t chunk, const Primitive &first)
		: PerChunk(bytes, chunk, 1, first), empty_(bytes == 0), prim_(first)
	{
	}
	bool append_next(Primitives *list) override
	{
		if (!empty_)
			return PerChunk::append_next(list);
		empty_ = false;
		list->push_back(prim_);
		return true;
	}

private:
	bool empty_;
	Primitive prim_;
};

// Return a collective's connection to or from a peer.
PeerConn send_to(const Comm &c, const Channel &ch, int peer) { return { send_conn(c, ch, peer, 0), peer }; }
PeerConn recv_from(const Comm &c, const Channel &ch, int peer) { return { recv_conn(c, ch, peer, 0), peer }; }

std::vector<PeerConn> children(const Comm &c, const Channel &ch, bool receives)
{
	std::vector<PeerConn> conns;
	for (int peer : ch.down) {
		if (peer < 0)
			break;
		conns.push_back(receives ? recv_from(c, ch, peer) : send_to(c, ch, peer));
	}
	return conns;
}

RunnerSpec collective_spec(const Comm &c, const Channel &ch, const Func &f, const CollWork &w)
{
	RunnerSpec spec;
	spec.comm = &c;
	spec.task = w.task;
	spec.channel = ch.id;
	spec.cost = collective_cost(f.proto);
	find_reduction(*c.layout, f.op, f.type, w.arg, &spec.red);
	// The ring algorithms of these collectives have chunks of 4 steps in 2 slices; all others have 1 step.
	bool four_steps = f.algo == Algo::kRing &&
		(f.coll == Coll::kAllReduce || f.coll == Coll::kAllGather || f.coll == Coll::kReduceScatter);
	if (four_steps)
		spec.slices_per_chunk = spec.steps_per_slice = 2;
	return spec;
}

// Reduces up the tree to the root and broadcasts down from there. The root does both in one primitive. On other ranks
// the two directions run at the same time.
void start_tree(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Share &share, Runners *out)
{
	bool leaf = ch.down[0] < 0;
	size_t elt = type_size(f.type);
	const char *in = w.send + share.offset * elt;
	char *result = w.recv + share.offset * elt;
	auto add = [&](const Primitive &first, std::vector<PeerConn> recv, std::vector<PeerConn> send) {
		RunnerSpec spec = collective_spec(c, ch, f, w);
		spec.schedule = std::make_unique<PerChunk>(share.size, share.chunk, elt, first);
		spec.recv = std::move(recv), spec.send = std::move(send);
		out->push_back(make_runner(f.proto, std::move(spec)));
	};
	if (ch.up < 0) {
		add({ true, true, in, result, 0, true }, children(c, ch, true), children(c, ch, false));
		return;
	}
	add({ !leaf, true, in, nullptr, 0, false }, children(c, ch, true), { send_to(c, ch, ch.up) });
	add({ true, !leaf, nullptr, result, 0, false }, { recv_from(c, ch, ch.up) }, children(c, ch, false));
}

// PAT's peers: the ranks at distances 1, 2, 4, ... before and after this one.
struct PatPeers {
	std::vector<PeerConn> recv, send;
};
PatPeers pat_peers(const Comm &c, const Channel &ch, bool gather)
{
	PatPeers p;
	for (int d = 1; d < c.nranks; d *= 2) {
		int ahead = (c.rank + d) % c.nranks, behind = (c.rank - d + c.nranks) % c.nranks;
		p.recv.push_back(recv_from(c, ch, gather ? ahead : behind));
		p.send.push_back(send_to(c, ch, gather ? behind : ahead));
	}
	return p;
}

} // namespace

char *send_conn(const Comm &c, const Channel &ch, int peer, int index)
{
	const Layout &l = *c.layout;
	char **peers = get<char **>(ch.base, l.ch_peers);
	return peers[peer] + l.peer_send + static_cast<uint32_t>(index) * l.conn_size;
}

char *recv_conn(const Comm &c, const Channel &ch, int peer, int index)
{
	const Layout &l = *c.layout;
	char **peers = get<char **>(ch.base, l.ch_peers);
	return peers[peer] + l.peer_recv + static_cast<uint32_t>(index) * l.conn_size;
}

std::unique_ptr<Runner> make_runner(Proto proto, RunnerSpec spec)
{
	if (proto == kLL)
		return make_ll(std::move(spec));
	if (proto == kLL128)
		return make_ll128(std::move(spec));
	return make_simple(std::move(spec));
}

void start_collective(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, Runners *out)
{
	Share share = channel_share(w, ch.id, f.proto, type_size(f.type));
	if (f.algo == Algo::kTree) {
		start_tree(c, ch, f, w, share, out);
		return;
	}
	RunnerSpec spec = collective_spec(c, ch, f, w);
	if (f.algo == Algo::kPat) {
		bool gather = f.coll == Coll::kAllGather;
		PatPeers peers = pat_peers(c, ch, gather);
		spec.recv = std::move(peers.recv), spec.send = std::move(peers.send);
		out->push_back(make_pat(std::move(spec), w, share, gather));
		return;
	}
	if (is_nvls(f)) {
		start_nvls(c, ch, f, w, share, spec, out);
		return;
	}
	spec.schedule = ring_schedule(c, ch, f, w, share);
	spec.recv = { recv_from(c, ch, ch.prev) }, spec.send = { send_to(c, ch, ch.next) };
	out->push_back(make_runner(f.proto, std::move(spec)));
}

bool start_p2p(const Comm &c, const Channel &ch, const P2pWork &w, bool starts, Runners *out)
{
	size_t begin = 0, end = 0;
	bool sends = p2p_share(*c.layout, w, ch.id, w.send_channels, w.send_bytes, &begin, &end);
	if (sends && w.send_rank == c.rank) {
		out->push_back(make_copy(w.recv + begin, w.send + begin, end - begin));
		return false;
	}
	auto add = [&](bool sending, char *buf, bool ll, size_t chunk, const PeerConn &conn) {
		RunnerSpec spec;
		spec.comm = &c;
		spec.step_bytes = c.p2p_chunk;
		spec.task = sending ? w.send_task : w.recv_task;
		spec.channel = ch.id;
		const P2pCost cost =
			p2p_cost(ll ? kLL : kSimple, *c.layout, conn.conn, sending ? w.send_channels : w.recv_channels);
		spec.cost = cost.action, spec.longer = cost.longer;
		if (sending && starts)
			spec.start = cost.start;
		(sending ? spec.send : spec.recv) = { conn };
		Primitive first = { !sending, sending, sending ? buf + begin : nullptr, sending ? nullptr : buf + begin,
			0, false };
		spec.schedule = std::make_unique<P2pChunks>(end - begin, chunk, first);
		out->push_back(make_runner(ll ? kLL : kSimple, std::move(spec)));
	};
	if (sends)
		add(true, w.send, w.send_ll, w.send_chunk, { send_conn(c, ch, w.send_rank, 1), w.send_rank, true });
	const bool receives = p2p_share(*c.layout, w, ch.id, w.recv_channels, w.recv_bytes, &begin, &end);
	if (receives)
		add(false, w.recv, w.recv_ll, w.recv_chunk, { recv_conn(c, ch, w.recv_rank, 1), w.recv_rank, true });
	return sends || receives;
}

void start_broadcasts(const Comm &c, const Channel &ch, const Batch &b, Runners *out)
{
	RunnerSpec spec;
	spec.comm = &c;
	spec.task = b.bcast_task;
	spec.channel = ch.id;
	spec.cost = collective_cost(b.func->proto);
	spec.schedule = gatherv_schedule(c, b);
	spec.recv = { recv_from(c, ch, ch.prev) }, spec.send = { send_to(c, ch, ch.next) };
	out->push_back(make_runner(b.func->proto, std::move(spec)));
}

std::vector<ConnEnd> connections_of(const Comm &c, const Channel &ch, const Func &f, const Batch &b)
{
	std::vector<ConnEnd> ends;
	auto both = [&](int peer) {
		ends.push_back({ recv_conn(c, ch, peer, 0), true });
		ends.push_back({ send_conn(c, ch, peer, 0), false });
	};
	for (const P2pWork &w : b.p2ps) {
		size_t begin, end;
		if (w.send_rank == c.rank)
			continue;
		if (p2p_share(*c.layout, w, ch.id, w.send_channels, w.send_bytes, &begin, &end))
			ends.push_back({ send_conn(c, ch, w.send_rank, 1), false });
		if (p2p_share(*c.layout, w, ch.id, w.recv_channels, w.recv_bytes, &begin, &end))
			ends.push_back({ recv_conn(c, ch, w.recv_rank, 1), true });
	}
	if (b.colls.empty() && b.bcasts.empty())
		return ends;
	if (is_nvls(f))
		return nvls_connections(c, ch, f);
	if (f.algo == Algo::kPat) {
		PatPeers peers = pat_peers(c, ch, f.coll == Coll::kAllGather);
		for (const PeerConn &p : peers.recv)
			ends.push_back({ p.conn, true });
		for (const PeerConn &p : peers.send)
			ends.push_back({ p.conn, false });
	} else if (f.algo == Algo::kRing) {
		ends.push_back({ recv_conn(c, ch, ch.prev, 0), true });
		ends.push_back({ send_conn(c, ch, ch.next, 0), false });
	} else {
		if (ch.up >= 0)
			both(ch.up);
		for (int i = 0; i < kTreeArity && ch.down[i] >= 0; i++)
			both(ch.down[i]);
	}
	return ends;
}

} // namespace softexec
