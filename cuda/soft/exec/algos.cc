// SPDX-License-Identifier: Apache-2.0
//
// Which engines run a piece of work: the tree's schedules, Send/Recv, and the choice between them and the ring.
#include "algos.h"

#include <algorithm>

namespace softexec {
namespace {

// The same primitive for every chunk. op starts with the first element's addresses.
class PerChunk : public Schedule {
public:
	PerChunk(size_t count, size_t chunk, size_t elt, const Op &op) : left_(count), chunk_(chunk), elt_(elt), op_(op)
	{
	}
	bool more(Ops *ops) override
	{
		if (left_ == 0)
			return false;
		op_.n = std::min(chunk_, left_);
		ops->push_back(op_);
		if (op_.src)
			op_.src += op_.n * elt_;
		if (op_.dst)
			op_.dst += op_.n * elt_;
		left_ -= op_.n;
		return true;
	}

private:
	size_t left_, chunk_, elt_;
	Op op_;
};

// Chunks of bytes; at least one, even for nothing, since the other side counts steps.
class P2pChunks : public PerChunk {
public:
	P2pChunks(size_t bytes, size_t chunk, const Op &op) : PerChunk(bytes, chunk, 1, op), empty_(bytes == 0), op_(op)
	{
	}
	bool more(Ops *ops) override
	{
		if (!empty_)
			return PerChunk::more(ops);
		empty_ = false;
		ops->push_back(op_);
		return true;
	}

private:
	bool empty_;
	Op op_;
};

std::vector<char *> children(const Comm &c, const Channel &ch, bool receives)
{
	std::vector<char *> conns;
	for (int peer : ch.down) {
		if (peer < 0)
			break;
		conns.push_back(receives ? recv_conn(c, ch, peer, 0) : send_conn(c, ch, peer, 0));
	}
	return conns;
}

Job collective_job(const Comm &c, const Func &f, const CollWork &w)
{
	Job job;
	job.comm = &c;
	find_reduction(*c.layout, f.op, f.type, w.arg, &job.red);
	// The ring's all-reduce, all-gather and reduce-scatter work on chunks of four steps in two slices.
	bool big = f.algo == Algo::kRing &&
		(f.coll == Coll::kAllReduce || f.coll == Coll::kAllGather || f.coll == Coll::kReduceScatter);
	if (big)
		job.slices_per_chunk = job.steps_per_slice = 2;
	return job;
}

// Reduces towards the root and broadcasts from there. The root does both at once; elsewhere the two directions run side
// by side.
void start_tree(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Part &part, Engines *out)
{
	bool leaf = ch.down[0] < 0;
	size_t elt = type_size(f.type);
	const char *in = w.send + part.offset * elt;
	char *result = w.recv + part.offset * elt;
	auto add = [&](const Op &op, std::vector<char *> recv, std::vector<char *> send) {
		Job job = collective_job(c, f, w);
		job.schedule = std::make_unique<PerChunk>(part.size, part.chunk, elt, op);
		job.recv = std::move(recv), job.send = std::move(send);
		out->push_back(make_engine(f.proto, std::move(job)));
	};
	if (ch.up < 0) {
		add({ true, true, in, result, 0, true }, children(c, ch, true), children(c, ch, false));
		return;
	}
	add({ !leaf, true, in, nullptr, 0, false }, children(c, ch, true), { send_conn(c, ch, ch.up, 0) });
	add({ true, !leaf, nullptr, result, 0, false }, { recv_conn(c, ch, ch.up, 0) }, children(c, ch, false));
}

// PAT sends to the ranks at distances 1, 2, 4, ... and receives from those at the same distances on the other side.
struct PatPeers {
	std::vector<char *> recv, send;
};
PatPeers pat_peers(const Comm &c, const Channel &ch, bool gather)
{
	PatPeers p;
	for (int d = 1; d < c.nranks; d *= 2) {
		int ahead = (c.rank + d) % c.nranks, behind = (c.rank - d + c.nranks) % c.nranks;
		p.recv.push_back(recv_conn(c, ch, gather ? ahead : behind, 0));
		p.send.push_back(send_conn(c, ch, gather ? behind : ahead, 0));
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

std::unique_ptr<Engine> make_engine(Proto proto, Job job)
{
	if (proto == kLL)
		return make_ll(std::move(job));
	if (proto == kLL128)
		return make_ll128(std::move(job));
	return make_simple(std::move(job));
}

void start_collective(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, Engines *out)
{
	Part part = channel_part(w, ch.id, f.proto, type_size(f.type));
	if (f.algo == Algo::kTree) {
		start_tree(c, ch, f, w, part, out);
		return;
	}
	Job job = collective_job(c, f, w);
	if (f.algo == Algo::kPat) {
		bool gather = f.coll == Coll::kAllGather;
		PatPeers peers = pat_peers(c, ch, gather);
		job.recv = std::move(peers.recv), job.send = std::move(peers.send);
		out->push_back(make_pat(std::move(job), w, part, gather));
		return;
	}
	job.schedule = ring_schedule(c, ch, f, w, part);
	job.recv = { recv_conn(c, ch, ch.prev, 0) }, job.send = { send_conn(c, ch, ch.next, 0) };
	out->push_back(make_engine(f.proto, std::move(job)));
}

void start_p2p(const Comm &c, const Channel &ch, const P2pWork &w, Engines *out)
{
	size_t begin = 0, end = 0;
	bool sends = p2p_part(*c.layout, w, ch.id, w.send_channels, w.send_bytes, &begin, &end);
	if (sends && w.send_rank == c.rank) {
		out->push_back(make_copy(w.recv + begin, w.send + begin, end - begin));
		return;
	}
	auto add = [&](bool sending, char *buf, bool ll, size_t chunk, char *conn) {
		Job job;
		job.comm = &c;
		job.step_bytes = c.p2p_chunk;
		(sending ? job.send : job.recv) = { conn };
		Op op = { !sending, sending, sending ? buf + begin : nullptr, sending ? nullptr : buf + begin, 0,
			false };
		job.schedule = std::make_unique<P2pChunks>(end - begin, chunk, op);
		out->push_back(make_engine(ll ? kLL : kSimple, std::move(job)));
	};
	if (sends)
		add(true, w.send, w.send_ll, w.send_chunk, send_conn(c, ch, w.send_rank, 1));
	if (p2p_part(*c.layout, w, ch.id, w.recv_channels, w.recv_bytes, &begin, &end)) {
		add(false, w.recv, w.recv_ll, w.recv_chunk, recv_conn(c, ch, w.recv_rank, 1));
	}
}

void start_broadcasts(const Comm &c, const Channel &ch, const Batch &b, Engines *out)
{
	Job job;
	job.comm = &c;
	job.schedule = gatherv_schedule(c, b);
	job.recv = { recv_conn(c, ch, ch.prev, 0) }, job.send = { send_conn(c, ch, ch.next, 0) };
	out->push_back(make_engine(b.func->proto, std::move(job)));
}

std::vector<Link> links_of(const Comm &c, const Channel &ch, const Func &f, const Batch &b)
{
	std::vector<Link> links;
	auto both = [&](int peer) {
		links.push_back({ recv_conn(c, ch, peer, 0), true });
		links.push_back({ send_conn(c, ch, peer, 0), false });
	};
	for (const P2pWork &w : b.p2ps) {
		size_t begin, end;
		if (w.send_rank == c.rank)
			continue;
		if (p2p_part(*c.layout, w, ch.id, w.send_channels, w.send_bytes, &begin, &end))
			links.push_back({ send_conn(c, ch, w.send_rank, 1), false });
		if (p2p_part(*c.layout, w, ch.id, w.recv_channels, w.recv_bytes, &begin, &end))
			links.push_back({ recv_conn(c, ch, w.recv_rank, 1), true });
	}
	if (b.colls.empty() && b.bcasts.empty())
		return links;
	if (f.algo == Algo::kPat) {
		PatPeers peers = pat_peers(c, ch, f.coll == Coll::kAllGather);
		for (char *conn : peers.recv)
			links.push_back({ conn, true });
		for (char *conn : peers.send)
			links.push_back({ conn, false });
	} else if (f.algo == Algo::kRing) {
		links.push_back({ recv_conn(c, ch, ch.prev, 0), true });
		links.push_back({ send_conn(c, ch, ch.next, 0), false });
	} else {
		if (ch.up >= 0)
			both(ch.up);
		for (int i = 0; i < kTreeArity && ch.down[i] >= 0; i++)
			both(ch.down[i]);
	}
	return links;
}

} // namespace softexec
