// SPDX-License-Identifier: Apache-2.0
//
// The steps of each role of NVLS.
#include "nvls.h"

#include <algorithm>

#include "cost.h"

namespace softexec {
namespace {

// The connections of a rank to the heads of its node have number 1, the connections of a head to all ranks number 0.
constexpr int kRank = 1, kHead = 0;

// Makes the roles of one channel's share.
class Starter {
public:
	Starter(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Share &share,
		const RunnerSpec &common, Runners *out)
		: c_(c), ch_(ch), n_(ch.nvls), f_(f), w_(w), share_(share), common_(common), out_(out)
	{
	}

	void all_reduce()
	{
		std::vector<HeadStep> all;
		std::vector<PartStep> part;
		const size_t heads = static_cast<size_t>(n_.heads), loop = heads * share_.chunk;
		for (size_t at = 0; at < share_.size; at += loop) {
			const size_t total = std::min(loop, share_.size - at);
			const size_t each = total < loop ? last_chunk(total) : share_.chunk;
			all.push_back({ share_.offset + at, total, each, each });
			const size_t begin = static_cast<size_t>(std::max(n_.head, 0)) * each;
			part.push_back({ nullptr, nullptr, begin < total ? std::min(each, total - begin) : 0 });
		}
		scatter(all);
		gather(all);
		if (n_.head < 0)
			return;
		if (f_.algo == Algo::kNvls) {
			head({ n_.down }, { n_.down }, part);
		} else if (n_.tree_up < 0) {
			head(children(), children(), part);
		} else {
			head(children(), { n_.tree_up }, part);
			head({ n_.tree_up }, children(), part);
		}
	}

	void all_gather()
	{
		std::vector<PartStep> part;
		const size_t elt = type_size(f_.type);
		gather(parts([&](size_t at, size_t n) { part.push_back({ w_.send + at * elt, nullptr, n }); }));
		if (n_.head >= 0)
			head({}, { n_.down }, part);
	}

	void reduce_scatter()
	{
		std::vector<PartStep> part;
		const size_t elt = type_size(f_.type);
		scatter(parts([&](size_t at, size_t n) { part.push_back({ nullptr, w_.recv + at * elt, n }); }));
		if (n_.head >= 0)
			head({ n_.down }, {}, part);
	}

private:
	// Chunk of each head in a last loop with so many elements.
	size_t last_chunk(size_t total) const
	{
		const int bytes = f_.algo == Algo::kNvls ? c_.layout->nvls_align : 16;
		const size_t heads = static_cast<size_t>(n_.heads),
			     align = static_cast<size_t>(bytes) / type_size(f_.type);
		return ((total + heads - 1) / heads + align - 1) / align * align;
	}

	// The steps of a collective in which every rank is a head, and has as much data as all others. Calls add with
	// each chunk of this rank's data.
	template <typename Add>
	std::vector<HeadStep> parts(Add add) const
	{
		std::vector<HeadStep> all;
		for (size_t at = 0; at < share_.size; at += share_.chunk) {
			const size_t n = std::min(share_.chunk, share_.size - at);
			all.push_back(
				{ share_.offset + at, static_cast<size_t>(n_.heads) * share_.count, n, share_.count });
			add(share_.offset + at, n);
		}
		return all;
	}

	std::vector<int> children() const
	{
		std::vector<int> peers;
		for (int i = 0; i < kTreeArity && n_.tree_down[i] >= 0; i++)
			peers.push_back(n_.tree_down[i]);
		return peers;
	}

	RunnerSpec spec(const std::vector<int> &recv, const std::vector<int> &send, int index) const
	{
		RunnerSpec s;
		s.comm = common_.comm, s.red = common_.red, s.task = common_.task, s.channel = common_.channel;
		if (const ddlemu_node_time *t = node_time())
			s.cost = index == kRank ? node_copy_of_nvls(t, has_parent()) : &t->nvls_head;
		for (int peer : recv)
			s.recv.push_back(end(recv_conn(c_, ch_, peer, index), peer, index == kHead));
		for (int peer : send)
			s.send.push_back(end(send_conn(c_, ch_, peer, index), peer, index == kRank));
		return s;
	}

	// With a parent in the tree of the channel, NCCL gives the copies of a rank fewer warps. Only heads know the
	// tree.
	bool has_parent() const { return f_.algo == Algo::kNvlsTree && n_.tree_up >= 0; }

	// An end of a connection to or from a rank of another node, a head, or, of a head, all ranks of the node.
	// reduces: what passes it goes from ranks to a head.
	PeerConn end(char *conn, int peer, bool reduces) const
	{
		PeerConn e{ conn, peer };
		if (peer < c_.nranks)
			return e;
		e.peer = c_.rank;
		e.kind = reduces ? DDLEMU_DIRECT_REDUCES : DDLEMU_DIRECT_BROADCAST;
		const int *head = std::find(n_.up, n_.up + n_.heads, peer);
		if (head != n_.up + n_.heads)
			e.peer = rank_of(static_cast<int>(head - n_.up));
		return e;
	}

	// The rank that is a head of this node. NCCL's kernels do not know it: of the other heads only the order
	// matters.
	int rank_of(int head) const
	{
		const ddlemu_node_time *t = node_time();
		if (head == n_.head || !t)
			return c_.rank;
		const std::vector<int> local = ranks_on_node(c_, static_cast<int>(t->gpus));
		const int rank = local.at(static_cast<size_t>(head));
		return rank != c_.rank ? rank : local[static_cast<size_t>(std::max(n_.head, 0))];
	}

	std::vector<int> heads() const { return { n_.up, n_.up + n_.heads }; }
	void scatter(std::vector<HeadStep> steps)
	{
		out_->push_back(make_scatter(spec({}, heads(), kRank), w_.send, std::move(steps)));
	}
	void gather(std::vector<HeadStep> steps)
	{
		out_->push_back(make_gather(spec(heads(), {}, kRank), w_.recv, std::move(steps)));
	}
	void head(const std::vector<int> &recv, const std::vector<int> &send, const std::vector<PartStep> &steps)
	{
		out_->push_back(make_head(spec(recv, send, kHead), steps));
	}

	const Comm &c_;
	const Channel &ch_;
	const Nvls &n_;
	const Func &f_;
	const CollWork &w_;
	const Share &share_;
	const RunnerSpec &common_;
	Runners *out_;
};

} // namespace

void start_nvls(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Share &share,
	const RunnerSpec &common, Runners *out)
{
	Starter s(c, ch, f, w, share, common, out);
	if (f.coll == Coll::kAllGather)
		s.all_gather();
	else if (f.coll == Coll::kReduceScatter)
		s.reduce_scatter();
	else
		s.all_reduce();
}

std::vector<ConnEnd> nvls_connections(const Comm &c, const Channel &ch, const Func &f)
{
	const Nvls &n = ch.nvls;
	std::vector<ConnEnd> ends;
	auto add = [&](int peer, int index, bool receives) {
		ends.push_back({ receives ? recv_conn(c, ch, peer, index) : send_conn(c, ch, peer, index), receives });
	};
	const bool scatters = f.coll != Coll::kAllGather, gathers = f.coll != Coll::kReduceScatter;
	auto through = [&](int peer, int index, bool reduces, bool broadcasts) {
		if (reduces)
			add(peer, index, index == kHead);
		if (broadcasts)
			add(peer, index, index == kRank);
	};
	for (int h = 0; h < n.heads; h++)
		through(n.up[h], kRank, scatters, gathers);
	if (n.head < 0)
		return ends;
	if (f.algo == Algo::kNvls) {
		through(n.down, kHead, scatters, gathers);
		return ends;
	}
	for (int i = 0; i < kTreeArity && n.tree_down[i] >= 0; i++)
		through(n.tree_down[i], kHead, true, true);
	if (n.tree_up >= 0)
		through(n.tree_up, kHead, true, true);
	return ends;
}

} // namespace softexec
