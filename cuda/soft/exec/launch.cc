// SPDX-License-Identifier: Apache-2.0
//
// Reads the arguments of a kernel launch: the communicator, the channels, and the work batches of each channel.
#include <algorithm>
#include <cstring>

#include "device.h"
#include "reduce.h"

namespace softexec {
namespace {

enum WorkType { kWorkP2p = 0, kWorkColl = 1, kWorkCollReg = 2, kWorkBcast = 3 };
enum Storage { kInArgs = 0, kInFifo = 1, kPersistent = 2 };

constexpr uint32_t kNone = ~0u;
constexpr size_t kMaxWorkSize = 512;

struct Reader {
	const Layout &l;
	const softexec_launch &launch;
	Plan &plan;
	std::string &why;
	Storage storage;
	const char *work_buf;
	uint32_t work_mask;

	// Sets the reason and returns false.
	bool refuse(const std::string &s)
	{
		why = s;
		return false;
	}

	// Copies a work of size bytes at offset off from the memory that this launch's works are in.
	bool load(uint32_t off, size_t size, char *to)
	{
		if (storage == kInArgs) {
			if (off + size > launch.args_size)
				return refuse("work beyond the end of the arguments");
			std::memcpy(to, static_cast<const char *>(launch.args) + off, size);
			return true;
		}
		// The FIFO wraps around. Its size and the sizes of works are multiples of 16 bytes.
		for (size_t i = 0; i < size; i += 16)
			std::memcpy(to + i, work_buf + ((off + i) & work_mask), 16);
		return true;
	}

	bool has_unsupported_bits(uint32_t bits, const UnsupportedBits (&list)[4])
	{
		for (const UnsupportedBits &u : list) {
			if (u.mask & bits) {
				why = u.what;
				return true;
			}
		}
		return false;
	}

	bool read_coll(const char *w, const Func &f, Batch *b);
	bool read_p2p(const char *w, Batch *b);
	bool read_bcast(const char *w, Batch *b);
	bool read_work(WorkType type, const char *w, Batch *b);
	bool read_batch(uint32_t flags, uint32_t base, uint64_t bitset, Batch *b, uint32_t *consumed);
	bool read_block(uint32_t first);
	bool check_function(const Func &f);
};

// u32fp8Decode of NCCL: 5 bits of exponent, and the 3 bits after the leading one.
size_t decode_chunk(uint8_t x)
{
	uint32_t exponent = x >> 3, mantissa = x & 7;
	return exponent == 0 ? mantissa : size_t(mantissa | 8) << (exponent - 1);
}

bool Reader::read_coll(const char *w, const Func &f, Batch *b)
{
	uint32_t bits = get<uint32_t>(w, l.coll_bits);
	if (has_unsupported_bits(bits, l.coll_unsupported))
		return false;
	if (f.algo == Algo::kNvls && !(bits & l.coll_one_node))
		return refuse("function " + f.name + " on several nodes (that needs CollNet)");
	CollWork c;
	c.channel_lo = bits & 0xff, c.channel_hi = bits >> 8 & 0xff;
	c.root = get<int>(w, l.coll_root);
	c.send = get<char *>(w, l.coll_send), c.recv = get<char *>(w, l.coll_recv);
	c.count_lo = get<uint64_t>(w, l.coll_count_lo), c.count_mid = get<uint64_t>(w, l.coll_count_mid);
	c.count_hi = get<uint64_t>(w, l.coll_count_hi);
	uint64_t grains = get<uint64_t>(w, l.coll_grains);
	constexpr uint64_t k21 = (1 << 21) - 1;
	c.grains_lo = grains & k21, c.grains_mid = grains >> 21 & k21, c.grains_hi = grains >> 42 & k21;
	c.arg = get<uint64_t>(w, l.coll_arg);
	if (bits >> 24 & 1)
		c.arg = load_arg(f.op, f.type, reinterpret_cast<const void *>(c.arg));
	c.profiled = (bits & l.coll_profiler) != 0;
	Reduction r;
	if (!find_reduction(l, f.op, f.type, c.arg, &r))
		return refuse("function " + f.name + " (no such reduction here)");
	b->colls.push_back(c);
	return true;
}

bool Reader::read_p2p(const char *w, Batch *b)
{
	uint8_t bits = get<uint8_t>(w, l.p2p_bits);
	if (has_unsupported_bits(bits, l.p2p_unsupported))
		return false;
	P2pWork p;
	p.send = get<char *>(w, l.p2p_send_addr), p.recv = get<char *>(w, l.p2p_recv_addr);
	p.send_bytes = get<uint64_t>(w, l.p2p_send_bytes), p.recv_bytes = get<uint64_t>(w, l.p2p_recv_bytes);
	p.send_rank = get<int>(w, l.p2p_send_rank), p.recv_rank = get<int>(w, l.p2p_recv_rank);
	p.channels = get<uint8_t>(w, l.p2p_channels), p.base = get<uint8_t>(w, l.p2p_base);
	p.send_channels = get<uint8_t>(w, l.p2p_send_channels), p.recv_channels = get<uint8_t>(w, l.p2p_recv_channels);
	p.send_chunk = decode_chunk(get<uint8_t>(w, l.p2p_send_chunk));
	p.recv_chunk = decode_chunk(get<uint8_t>(w, l.p2p_recv_chunk));
	p.send_ll = bits & 1, p.recv_ll = bits & 2;
	p.profiled = (bits & l.p2p_profiler) != 0;
	if (p.channels == 0 || (p.channels & (p.channels - 1)) != 0)
		return refuse("a Send/Recv over a number of channels that is not a power of 2");
	if ((p.send_channels && !p.send_chunk) || (p.recv_channels && !p.recv_chunk))
		return refuse("a Send/Recv with a chunk size of 0");
	b->p2ps.push_back(p);
	return true;
}

bool Reader::read_bcast(const char *w, Batch *b)
{
	BcastWork c;
	c.depth = get<int>(w, l.bcast_depth), c.chunk = static_cast<size_t>(get<int>(w, l.bcast_chunk));
	c.send = get<char *>(w, l.bcast_send), c.recv = get<char *>(w, l.bcast_recv);
	c.bytes = get<uint64_t>(w, l.bcast_bytes), c.done = get<uint64_t>(w, l.bcast_done);
	if (c.chunk == 0)
		return refuse("a broadcast with a chunk size of 0");
	b->bcasts.push_back(c);
	return true;
}

bool Reader::read_work(WorkType type, const char *w, Batch *b)
{
	if (type == kWorkP2p)
		return read_p2p(w, b);
	return type == kWorkBcast ? read_bcast(w, b) : read_coll(w, *b->func, b);
}

// Returns the type of the works of a function.
WorkType work_type(const Func &f)
{
	if (f.coll == Coll::kSendRecv)
		return kWorkP2p;
	return f.coll == Coll::kAllGatherV ? kWorkBcast : kWorkColl;
}

bool Reader::check_function(const Func &f)
{
	if (f.type == Type::kF8e4m3 || f.type == Type::kF8e5m2)
		return refuse("function " + f.name + " (8-bit floats)");
	if (f.algo == Algo::kCollnetDirect || f.algo == Algo::kCollnetChain)
		return refuse("function " + f.name + " (CollNet needs switches that reduce)");
	// NCCL does not use PAT for these: PAT has no preOp and no postOp.
	bool has_pre_or_post_op = f.op == RedOp::kPreMulSum || f.op == RedOp::kSumPostDiv;
	if (f.algo == Algo::kPat && has_pre_or_post_op)
		return refuse("function " + f.name + " (PAT has no averages)");
	return true;
}

// Appends the works of one ncclDevWorkBatch to b.
bool Reader::read_batch(uint32_t flags, uint32_t base, uint64_t bitset, Batch *b, uint32_t *consumed)
{
	WorkType type = static_cast<WorkType>(flags >> 15 & 3);
	uint32_t func = flags >> 17;
	const std::vector<Func> &all = functions(l);
	if (type == kWorkCollReg)
		return refuse("registered user buffers (work type CollReg)");
	if (func >= all.size())
		return refuse("function number " + std::to_string(func) + ", which this NCCL version does not have");
	b->func = &all[func];
	if (!check_function(*b->func))
		return false;
	if (type != work_type(*b->func))
		return refuse("work that does not match its function " + b->func->name);
	uint32_t size = type == kWorkP2p ? l.p2p_size : type == kWorkBcast ? l.bcast_size : l.coll_size;
	for (uint64_t bits = bitset; bits != 0; bits &= bits - 1) {
		uint32_t i = static_cast<uint32_t>(__builtin_ctzll(bits));
		alignas(16) char w[kMaxWorkSize];
		if (!load(base + i * size, size, w))
			return false;
		if (!read_work(type, w, b))
			return false;
	}
	if (bitset != 0)
		*consumed = base + static_cast<uint32_t>(64 - __builtin_clzll(bitset)) * size;
	return true;
}

// Reads the chain of batches of one block. A batch with the extends bit is merged into the one before it.
bool Reader::read_block(uint32_t first)
{
	Block &b = plan.blocks.back();
	bool extends = false;
	for (uint32_t ix = first; ix != kNone;) {
		size_t off = l.args_size + size_t(ix) * l.batch_size;
		if (off + l.batch_size > launch.args_size)
			return refuse("a work batch beyond the end of the arguments");
		const char *raw = static_cast<const char *>(launch.args) + off;
		uint32_t flags = get<uint32_t>(raw, l.batch_flags), jump = flags & 0x3fff;
		if (!extends)
			b.batches.emplace_back();
		if (!read_batch(flags, get<uint32_t>(raw, l.batch_base), get<uint64_t>(raw, l.batch_bitset),
			    &b.batches.back(), &b.consumed))
			return false;
		extends = flags >> 14 & 1;
		ix = jump ? ix + jump : kNone;
	}
	return true;
}

void read_comm(const Layout &l, char *base, Comm *c)
{
	c->layout = &l;
	c->base = base;
	c->rank = get<int>(base, l.comm_rank), c->nranks = get<int>(base, l.comm_nranks);
	for (int p = 0; p < kProtos; p++)
		c->buff_size[p] = get<int>(base, l.comm_buff_sizes + 4 * static_cast<uint32_t>(p));
	c->p2p_chunk = get<int>(base, l.comm_p2p_chunk);
	c->abort = get<const uint32_t *>(base, l.comm_abort);
}

void read_nvls(const Layout &l, const char *base, Nvls *n)
{
	n->heads = get<int>(base, l.nvls_heads), n->head = get<int>(base, l.nvls_head_rank);
	for (uint32_t i = 0; i < kMaxHeads; i++)
		n->up[i] = get<int>(base, l.nvls_up + 4 * i);
	n->down = get<int>(base, l.nvls_down);
	n->tree_up = get<int>(base, l.nvls_tree_up);
	for (uint32_t i = 0; i < kTreeArity; i++)
		n->tree_down[i] = get<int>(base, l.nvls_tree_down + 4 * i);
}

void read_channel(const Layout &l, const Comm &c, int id, Channel *ch)
{
	ch->id = id;
	ch->base = c.base + l.channels + size_t(id) * l.channel_size;
	ch->prev = get<int>(ch->base, l.ch_ring_prev), ch->next = get<int>(ch->base, l.ch_ring_next);
	ch->index = get<int>(ch->base, l.ch_ring_index), ch->ranks = get<const int *>(ch->base, l.ch_ring_ranks);
	ch->up = get<int>(ch->base, l.ch_tree_up);
	for (int i = 0; i < kTreeArity; i++)
		ch->down[i] = get<int>(ch->base, l.ch_tree_down + 4 * static_cast<uint32_t>(i));
	read_nvls(l, ch->base + l.ch_nvls, &ch->nvls);
}

// Returns true if the kernel is the kernel of at least one batch, as NCCL's launches are. Otherwise the function
// numbers of this build of NCCL differ from those in funcs.cc.
bool kernel_matches(const Plan &p, const std::string &kernel)
{
	if (kernel.compare(0, 7, "Generic") == 0)
		return true;
	for (const Block &b : p.blocks) {
		for (const Batch &batch : b.batches) {
			const std::string &k = batch.func->kernel;
			bool whole = kernel.size() == k.size() ||
				(kernel.size() > k.size() && !std::isalpha(kernel[k.size()]) &&
					kernel[k.size()] != '_');
			if (kernel.compare(0, k.size(), k) == 0 && whole)
				return true;
		}
	}
	return false;
}

// Sets *suffix to the part of a kernel's name after the prefix. The name may be mangled.
bool kernel_suffix(const char *kernel, std::string *suffix, std::string *why)
{
	static const char kPrefix[] = "ncclDevKernel_";
	const char *at = kernel ? std::strstr(kernel, kPrefix) : nullptr;
	if (at) {
		*suffix = at + sizeof kPrefix - 1;
		return true;
	}
	bool symmetric = kernel && (std::strstr(kernel, "ncclSymk") || std::strstr(kernel, "ncclSymDevKernel"));
	*why = std::string(symmetric ? "symmetric memory kernel " : "unknown kernel ") +
		(kernel ? kernel : "without a name");
	return false;
}

} // namespace

bool read_launch(const Layout &l, const softexec_launch &launch, Plan *out, std::string *why)
{
	std::string suffix;
	if (!kernel_suffix(launch.kernel, &suffix, why))
		return false;
	if (!launch.args || launch.args_size < l.args_size) {
		*why = "arguments that are too short";
		return false;
	}
	read_comm(l, get<char *>(launch.args, l.args_comm), &out->comm);
	out->comm.members.assign(launch.members, launch.members + launch.member_count);
	out->comm.number = launch.comm;
	Reader r{ l, launch, *out, *why, static_cast<Storage>(get<uint8_t>(launch.args, l.args_storage)),
		get<const char *>(launch.args, l.args_work_buf), get<uint32_t>(launch.args, l.args_work_mask) };
	out->fifo = r.storage == kInFifo;
	uint64_t mask = get<uint64_t>(launch.args, l.args_channel_mask);
	unsigned n = static_cast<unsigned>(__builtin_popcountll(mask));
	if (n == 0 || n != launch.grid || (l.max_channels < 64 && mask >> l.max_channels))
		return r.refuse("a grid that does not match its channels");
	out->blocks.reserve(n);
	for (uint32_t first = 0; mask != 0; mask &= mask - 1, first++) {
		out->blocks.emplace_back();
		Block &b = out->blocks.back();
		b.consumed = 0;
		read_channel(l, out->comm, __builtin_ctzll(mask), &b.channel);
		if (!r.read_block(first))
			return false;
	}
	if (!kernel_matches(*out, suffix))
		return r.refuse("kernel " + suffix + ", which does not match its functions (an unknown build of NCCL)");
	return true;
}

} // namespace softexec
