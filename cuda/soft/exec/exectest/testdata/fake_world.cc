// SPDX-License-Identifier: Apache-2.0
#include "fake_world.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>

#include "exec.h"
#include "multicast.h"

namespace fake {

using softexec::Proto;

namespace {

constexpr int kEmpty = -1; // size in a connFifo entry that the proxy has processed

// A binary tree that has ranks with none, one and two children; rotate selects the root.
void heap_tree(int me, int n, int rotate, Tree *t)
{
	int v = (me - rotate % n + n) % n;
	auto rank = [&](int x) { return x < n ? (x + rotate) % n : -1; };
	t->up = v == 0 ? -1 : rank((v - 1) / 2);
	t->down[0] = rank(2 * v + 1), t->down[1] = rank(2 * v + 2), t->down[2] = -1;
	if (t->down[0] == -1)
		std::swap(t->down[0], t->down[1]);
	t->depth = 0;
}

template <typename All>
void fill(All *a, World &w, int rank, const int *buff_sizes, int p2p_chunk)
{
	auto &c = a->comm;
	c.rank = rank, c.nranks = w.options().nranks;
	std::copy(buff_sizes, buff_sizes + 3, c.buff_sizes);
	c.p2p_chunk = p2p_chunk;
	c.abort = &w.abort[static_cast<size_t>(rank)];
	c.channels = a->channels;
}

} // namespace

int World::ring_at(int channel, int i) const
{
	// The rings of even channels are 0, 1, 2, ...; the rings of odd channels run backwards, so that index and rank
	// differ.
	int n = options_.nranks;
	i = ((i % n) + n) % n;
	return channel % 2 == 0 ? i : (n - i) % n;
}

void World::tree_of(int channel, int rank, Tree *t) const { heap_tree(rank, options_.nranks, channel, t); }

World::World(const Options &o)
	: options_(o),
	  layout_(softexec::layout_for(o.version)),
	  buff_sizes_{ 8 * 1024, 8 * 2048, 8 * 4096 },
	  p2p_chunk_(2048)
{
	size_t n = static_cast<size_t>(o.nranks);
	abort.assign(n, 0), consumed.assign(n * 32, 0);
	started.resize(64 * n), completed.resize(64 * n);
	peers_.resize(peer_index(o.nranks, 0)), peer_ptrs_.resize(peers_.size());
	for (size_t i = 0; i < peers_.size(); i++)
		peer_ptrs_[i] = &peers_[i];
	fifos_.assign(n, std::vector<char>(kFifoBytes));
	fifo_next_.assign(n, kFifoBytes - 64); // so that the first works wrap around
	for (int s = 0; s < o.nranks; s++) {
		for (int d = 0; d < o.nranks; d++) {
			for (int c = 0; s != d && c < o.channels; c++) {
				for (int index = 0; index < 2; index++) {
					connections_.push_back(std::make_unique<Connection>());
					Connection &l = *connections_.back();
					l.src = s, l.dst = d, l.channel = c, l.index = index;
					connect(l);
				}
			}
		}
	}
	// Two directions for each head and channel, each with a buffer and the two counters behind it.
	members_.resize(n), multicast_.resize(n);
	for (int r = 0; o.heads > 0 && r < o.nranks; r++)
		members_[static_cast<size_t>(r)].assign(
			static_cast<size_t>(o.heads * o.channels * 2) * (8 * kNvlsStep + 64), 0);
	for (int r = 0; r < o.nranks; r++) {
		if (o.heads > 0)
			connect_nvls(r);
		fill_comm(r);
	}
	if (o.transport == Transport::kNet)
		proxy_ = std::thread([this] { proxy(); });
}

World::~World()
{
	stop_ = true;
	if (proxy_.joinable())
		proxy_.join();
	for (void *p : multicast_) {
		if (!p)
			continue;
		softexec::remove_multicast(p);
		munmap(p, members_[0].size());
	}
}

// Nothing is mapped readable at the multicast addresses, so that the executor cannot use them by mistake.
void World::connect_nvls(int rank)
{
	const size_t bytes = members_[0].size();
	void *shared = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	multicast_[static_cast<size_t>(rank)] = shared;
	softexec::add_multicast(shared, bytes, [this, rank] {
		std::vector<char *> all;
		const int first = rank / options_.gpus_per_node * options_.gpus_per_node;
		for (int r = first; r < first + options_.gpus_per_node; r++)
			all.push_back(members_[static_cast<size_t>(r)].data());
		return all;
	});
	char *own = members_[static_cast<size_t>(rank)].data();
	auto set = [&](Conn &c, char *memory, size_t place) {
		char *at = memory + place * (8 * kNvlsStep + 64);
		c.buffs[softexec::kSimple] = at;
		c.head = reinterpret_cast<uint64_t *>(at + 8 * kNvlsStep), c.tail = c.head + 4;
		c.step_size = kNvlsStep;
	};
	for (int h = 0; h < options_.heads; h++) {
		for (int c = 0; c < options_.channels; c++) {
			Peer &p = peer(rank, c, options_.nranks + 1 + h);
			const size_t up = static_cast<size_t>((h * options_.channels + c) * 2), down = up + 1;
			set(p.send[1], own, up), set(p.recv[0], static_cast<char *>(shared), up);
			set(p.recv[1], own, down), set(p.send[0], static_cast<char *>(shared), down);
		}
	}
}

void World::nvls_of(int channel, int rank, Nvls *n) const
{
	const int local = rank % options_.gpus_per_node, node = rank / options_.gpus_per_node;
	n->out = -1, n->heads = options_.heads, n->head = local < options_.heads ? local : -1;
	std::fill(n->up, n->up + 32, -1);
	for (int h = 0; h < options_.heads; h++)
		n->up[h] = options_.nranks + 1 + h;
	n->down = options_.nranks + 1 + n->head;
	Tree nodes;
	heap_tree(node, options_.nranks / options_.gpus_per_node, channel, &nodes);
	auto head_on = [&](int other) { return other * options_.gpus_per_node + local; };
	n->tree_up = nodes.up < 0 ? -1 : head_on(nodes.up);
	n->tree_down[0] = n->down;
	for (int i = 0; i < 2; i++)
		n->tree_down[1 + i] = nodes.down[i] < 0 ? -1 : head_on(nodes.down[i]);
}

void World::connect(Connection &l)
{
	Conn &s = peer(l.src, l.channel, l.dst).send[l.index], &r = peer(l.dst, l.channel, l.src).recv[l.index];
	bool net = options_.transport == Transport::kNet;
	bool pooled = net && l.index == 1; // the buffers of Send/Recv connections are shared, as in NCCL
	for (int p = 0; p < 3; p++) {
		size_t size = static_cast<size_t>(buff_sizes_[p]) * (pooled ? 2 : 1);
		l.send_mem[p].assign(size + 64, 0x55);
		if (net)
			l.recv_mem[p].assign(size + 64, 0x55);
		auto aligned = [](std::vector<char> &v) {
			return reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(v.data()) + 63) & ~uintptr_t(63));
		};
		s.buffs[p] = aligned(l.send_mem[p]);
		r.buffs[p] = net ? aligned(l.recv_mem[p]) : s.buffs[p];
		// 0 is no flag of the next steps.
		std::memset(s.buffs[p], 0, size), std::memset(r.buffs[p], 0, size);
	}
	s.step = r.step = l.step = l.posted = options_.first_step;
	l.send_head = l.send_tail = l.recv_head = l.recv_tail = l.step;
	s.head = &l.send_head, s.tail = &l.send_tail;
	r.head = net ? &l.recv_head : &l.send_head, r.tail = net ? &l.recv_tail : &l.send_tail;
	if (pooled)
		l.send_head -= 8; // no step is free before the proxy has assigned a place
	s.step_size = r.step_size = buff_sizes_[softexec::kSimple] / 8;
	s.fifo = r.fifo = nullptr;
	if (!net)
		return;
	s.fifo = l.send_fifo, r.fifo = l.recv_fifo;
	for (int i = 0; i < 8; i++) {
		l.send_fifo[i] = { pooled, -1, kEmpty, nullptr };
		l.recv_fifo[i] = { pooled, -1, kEmpty, nullptr };
	}
}

void World::fill_comm(int rank)
{
	size_t bytes = std::max(sizeof(v2_22_3::All), sizeof(v2_29_7::All));
	comms_.push_back(std::make_unique<char[]>(bytes));
	char *mem = comms_.back().get();
	std::memset(mem, 0, bytes);
	auto channels = [&](auto *all) {
		for (int c = 0; c < options_.channels; c++) {
			auto &ch = all->channels[c];
			ch.peers = &peer_ptrs_[peer_index(rank, c)];
			int at = 0;
			while (ring_at(c, at) != rank)
				at++;
			rings_.emplace_back();
			for (int i = 0; i < options_.nranks; i++)
				rings_.back().push_back(ring_at(c, at + i));
			ch.ring.prev = ring_at(c, at - 1), ch.ring.next = ring_at(c, at + 1), ch.ring.index = at;
			ch.ring.ranks = rings_.back().data();
			tree_of(c, rank, &ch.tree);
			if (options_.heads > 0)
				nvls_of(c, rank, &ch.nvls);
		}
	};
	if (options_.version == 22203) {
		auto *all = reinterpret_cast<v2_22_3::All *>(mem);
		fill(all, *this, rank, buff_sizes_, p2p_chunk_);
		all->comm.consumed = &consumed[static_cast<size_t>(rank) * 32];
		channels(all);
	} else {
		auto *all = reinterpret_cast<v2_29_7::All *>(mem);
		fill(all, *this, rank, buff_sizes_, p2p_chunk_);
		all->comm.started = &started[64 * static_cast<size_t>(rank)],
		all->comm.completed = &completed[64 * static_cast<size_t>(rank)];
		channels(all);
	}
}

void World::mark(int src, int dst, int channel, int index, Proto p, int chunk_steps, int slice_steps)
{
	uint64_t c = static_cast<uint64_t>(chunk_steps);
	std::lock_guard<std::mutex> lock(mu_);
	for (auto &l : connections_) {
		if (l->src != src || l->dst != dst || l->channel != channel || l->index != index)
			continue;
		l->proto = p;
		l->slice_steps = slice_steps;
		l->step = (l->step + c - 1) / c * c;
		l->posted = l->first = l->step;
		l->sizes.clear();
		l->active = true;
	}
}

void World::mark_ring(Proto p, int chunk_steps, int slice_steps)
{
	for (int c = 0; c < options_.channels; c++) {
		for (int i = 0; i < options_.nranks; i++)
			mark(ring_at(c, i), ring_at(c, i + 1), c, 0, p, chunk_steps, slice_steps);
	}
}

void World::mark_tree(Proto p)
{
	for (int c = 0; c < options_.channels; c++) {
		for (int r = 0; r < options_.nranks; r++) {
			Tree t;
			tree_of(c, r, &t);
			if (t.up < 0)
				continue;
			mark(r, t.up, c, 0, p, 1, 1);
			mark(t.up, r, c, 0, p, 1, 1);
		}
	}
}

void World::mark_pat(bool gather)
{
	int n = options_.nranks;
	for (int c = 0; c < options_.channels; c++) {
		for (int r = 0; r < n; r++) {
			for (int d = 1; d < n; d *= 2)
				mark(r, (gather ? r - d + n : r + d) % n, c, 0, softexec::kSimple, 1, 1);
		}
	}
}

void World::mark_nvls_tree()
{
	for (int c = 0; c < options_.channels; c++) {
		for (int r = 0; r < options_.nranks; r++) {
			Nvls n;
			nvls_of(c, r, &n);
			if (n.head < 0 || n.tree_up < 0)
				continue;
			mark(r, n.tree_up, c, 0, softexec::kSimple, 1, 1);
			mark(n.tree_up, r, c, 0, softexec::kSimple, 1, 1);
		}
	}
}

void World::mark_p2p(int src, int dst, Proto p, int channel) { mark(src, dst, channel, 1, p, 1, 1); }

// Returns true if the sender's current step is complete, by the rules of NCCL's proxy.
bool World::ready(Connection &l, size_t *bytes)
{
	Fifo &f = l.send_fifo[l.step % 8];
	ssize_t size = __atomic_load_n(&f.size, __ATOMIC_ACQUIRE);
	if (size == kEmpty)
		return false;
	if (l.proto != softexec::kLL && __atomic_load_n(&l.send_tail, __ATOMIC_ACQUIRE) <= l.step)
		return false;
	*bytes = static_cast<size_t>(size);
	Conn &s = peer(l.src, l.channel, l.dst).send[l.index];
	char *slot = s.buffs[l.proto] + l.step % 8 * static_cast<size_t>(buff_sizes_[l.proto]) / 8;
	for (size_t i = 0; l.proto == softexec::kLL && i < *bytes / 8; i++) {
		uint64_t half = __atomic_load_n(reinterpret_cast<uint64_t *>(slot) + i, __ATOMIC_ACQUIRE);
		if (half >> 32 != static_cast<uint32_t>(l.step + 1))
			return false;
	}
	for (size_t i = 0; l.proto == softexec::kLL128 && i < *bytes / 128; i++) {
		if (__atomic_load_n(reinterpret_cast<uint64_t *>(slot + 128 * i + 120), __ATOMIC_ACQUIRE) != l.step + 1)
			return false;
	}
	return true;
}

// Moves as much of one connection as possible. Steps of LL and LL128 are delivered in pieces, word by
// word; a line of LL128 backwards, its flag first, because a network's copy has no order.
bool World::move(Connection &l)
{
	Conn &s = peer(l.src, l.channel, l.dst).send[l.index], &r = peer(l.dst, l.channel, l.src).recv[l.index];
	uint64_t slice = static_cast<uint64_t>(l.slice_steps);
	bool pooled = s.fifo[0].mode == 1;
	if (pooled && l.posted < l.step + 8) { // assign the sender a place for the step, then free the step
		__atomic_store_n(&l.send_fifo[l.posted % 8].offset,
			static_cast<int>((l.posted * 5 % 16) * static_cast<uint64_t>(buff_sizes_[2]) / 8),
			__ATOMIC_RELAXED);
		l.posted += slice;
		__atomic_store_n(&l.send_head, l.posted - 8, __ATOMIC_RELEASE);
		return true;
	}
	size_t bytes;
	if (!ready(l, &bytes))
		return false;
	if (l.step + slice > __atomic_load_n(&l.recv_head, __ATOMIC_ACQUIRE) + 8)
		return false;
	size_t step_bytes = static_cast<size_t>(buff_sizes_[l.proto]) / 8;
	char *from = s.buffs[l.proto] + l.step % 8 * step_bytes, *to = r.buffs[l.proto] + l.step % 8 * step_bytes;
	if (l.proto == softexec::kSimple) {
		if (pooled) {
			int at = static_cast<int>((l.step * 3 % 16) * step_bytes);
			__atomic_store_n(&l.recv_fifo[l.step % 8].offset, at, __ATOMIC_RELAXED);
			from = s.buffs[2] + l.send_fifo[l.step % 8].offset, to = r.buffs[2] + at;
		}
		std::memcpy(to, from, bytes);
	} else {
		size_t until = std::min(bytes, l.delivered + 200 * 8);
		for (; l.delivered < until; l.delivered += 8) {
			size_t at = l.proto == softexec::kLL128 ? l.delivered ^ 120 : l.delivered;
			uint64_t v = __atomic_load_n(reinterpret_cast<uint64_t *>(from + at), __ATOMIC_RELAXED);
			__atomic_store_n(reinterpret_cast<uint64_t *>(to + at), v, __ATOMIC_RELEASE);
		}
		if (l.delivered < bytes)
			return true;
	}
	l.delivered = 0;
	__atomic_store_n(&l.send_fifo[l.step % 8].size, static_cast<ssize_t>(kEmpty), __ATOMIC_RELAXED);
	l.step += slice;
	l.sizes.push_back(bytes);
	__atomic_store_n(&l.recv_tail, l.step, __ATOMIC_RELEASE);
	if (!pooled)
		__atomic_store_n(&l.send_head, l.step, __ATOMIC_RELEASE);
	return true;
}

void World::proxy()
{
	while (!stop_) {
		{
			std::lock_guard<std::mutex> lock(mu_);
			for (auto &l : connections_) {
				while (l->active && move(*l)) {
				}
			}
		}
		sched_yield();
	}
}

// Grows whenever a rank or the proxy has ended a step.
uint64_t World::steps_ended()
{
	uint64_t n = 0;
	for (auto &l : connections_) {
		for (const uint64_t *steps : { &l->send_head, &l->send_tail, &l->recv_head, &l->recv_tail })
			n += __atomic_load_n(steps, __ATOMIC_RELAXED);
	}
	return n;
}

std::vector<int> World::run(const std::vector<Launch> &l, const std::string &what)
{
	std::vector<int> result(l.size());
	std::vector<std::thread> ranks;
	std::atomic<size_t> running{ l.size() };
	for (size_t i = 0; i < l.size(); i++) {
		ranks.emplace_back([&, i] {
			std::vector<char> args = l[i].args;
			softexec_launch k = { l[i].kernel.c_str(), args.data(), args.size(), l[i].grid, 512,
				static_cast<int>(i), 0, nullptr, 0, 0 };
			result[i] = softexec_run(&k);
			running--;
		});
	}
	// Small chunks are thousands of steps, which take minutes on a busy machine: a launch hangs when no step ends.
	auto now = std::chrono::steady_clock::now(), last = now;
	for (uint64_t steps = 0; running != 0 && now < last + std::chrono::seconds(20); sched_yield()) {
		now = std::chrono::steady_clock::now();
		if (uint64_t n = steps_ended(); n != steps)
			steps = n, last = now;
	}
	CHECK(running == 0, "%s hangs", what.c_str());
	if (running != 0)
		std::_Exit(1);
	for (auto &t : ranks)
		t.join();
	return result;
}

void World::check_steps(const std::string &what)
{
	for (auto &l : connections_) {
		if (!l->active)
			continue;
		uint64_t s = peer(l->src, l->channel, l->dst).send[l->index].step,
			 r = peer(l->dst, l->channel, l->src).recv[l->index].step;
		CHECK(s == r, "%s: connection %d to %d: sender is at step %lu, receiver at %lu", what.c_str(), l->src,
			l->dst, s, r);
		std::lock_guard<std::mutex> lock(mu_);
		// The receiver can finish before the proxy has counted the last step.
		bool net = options_.transport == Transport::kNet;
		while (net && move(*l)) {
		}
		CHECK(!net || l->step == r, "%s: connection %d to %d: proxy is at step %lu, receiver at %lu",
			what.c_str(), l->src, l->dst, l->step, r);
		l->active = false;
		if (!net || l->proto != softexec::kSimple || r == l->first)
			continue;
		// Receivers of NCCL 2.22 also write the size; later ones do not.
		uint64_t slice = static_cast<uint64_t>(l->slice_steps);
		bool wrote = l->recv_fifo[(r - slice) % 8].size != kEmpty;
		CHECK(wrote == layout_->recv_writes_size, "%s: receiver of connection %d to %d %s the size",
			what.c_str(), l->src, l->dst, wrote ? "wrote" : "did not write");
	}
}

std::vector<size_t> World::sizes(int src, int dst)
{
	std::lock_guard<std::mutex> lock(mu_);
	for (auto &l : connections_) {
		if (l->src == src && l->dst == dst && l->channel == 0 && l->index == 0)
			return l->sizes;
	}
	return {};
}

Work World::collective(const std::string &func, int channels, const void *send, void *recv, size_t count,
	size_t grain_elts, size_t chunk_grains, int root, uint64_t arg, bool arg_is_ptr)
{
	Work work;
	work.func = func, work.type = 1, work.channel = 0;
	size_t grains = (count + grain_elts - 1) / grain_elts, n = static_cast<size_t>(channels),
	       each = grains / n * grain_elts;
	Counts c = {};
	c.lo = n == 1 ? count : each;
	c.mid = n > 2 ? each : 0;
	c.hi = n == 1 ? 0 : count - c.lo - c.mid * (n - 2);
	c.grains_lo = c.grains_mid = c.grains_hi = chunk_grains;
	auto put = [&](auto w) {
		w.channel_lo = 0, w.channel_hi = static_cast<uint32_t>(channels - 1) & 0xff, w.warps = 16,
		w.arg_is_ptr = arg_is_ptr, w.one_node = options_.nranks == options_.gpus_per_node;
		w.root = static_cast<uint32_t>(root), w.send = const_cast<void *>(send), w.recv = recv, w.counts = c,
		w.arg = arg;
		work.bytes.resize(sizeof w);
		std::memcpy(work.bytes.data(), &w, sizeof w);
	};
	if (options_.version == 22203) {
		put(v2_22_3::Coll{});
	} else {
		put(v2_29_7::Coll{});
	}
	return work;
}

// Copies the works to their storage and returns the position of each.
std::vector<uint32_t> World::store(int rank, const std::vector<Work> &works, int storage, Launch *out)
{
	std::vector<uint32_t> base;
	for (const Work &w : works) {
		if (storage == 0) {
			base.push_back(static_cast<uint32_t>(out->args.size()));
			out->args.insert(out->args.end(), w.bytes.begin(), w.bytes.end());
			continue;
		}
		uint32_t &next = fifo_next_[static_cast<size_t>(rank)];
		base.push_back(next);
		for (char c : w.bytes)
			fifos_[static_cast<size_t>(rank)][next++ & (kFifoBytes - 1)] = c;
	}
	return base;
}

// Returns the chain of batches of one channel.
std::vector<BatchHead> World::chain(
	const std::vector<Work> &works, const std::vector<uint32_t> &base, int channel, Launch *out)
{
	const auto &funcs = softexec::functions(*layout_);
	std::vector<BatchHead> list;
	const Work *last = nullptr;
	for (size_t i = 0; i < works.size(); i++) {
		const Work &w = works[i];
		if (w.type != kCollWork && w.type != kCollRegWork && w.channel != channel)
			continue;
		if (last && last->type == kCollWork && last->func == w.func) {
			list.back().bitset |= list.back().bitset + 4; // the next bit after the last; the first is bit 2
			continue;
		}
		size_t func = 0;
		while (func < funcs.size() && funcs[func].name != w.func)
			func++;
		CHECK(func < funcs.size(), "no function %s", w.func.c_str());
		out->kernel = "_Z40ncclDevKernel_" + funcs[func % funcs.size()].kernel +
			"24ncclDevKernelArgsStorageILm4096EE";
		if (last)
			list.back().extends = w.type != kCollWork && last->func == w.func;
		BatchHead h = {};
		h.type = static_cast<uint32_t>(w.type) & 3, h.func = static_cast<uint32_t>(func) & 0x7fff;
		// The base is two works before the first work, so that the first bit is not bit 0.
		h.base = base[i] - static_cast<uint32_t>(2 * w.bytes.size()), h.bitset = 4;
		list.push_back(h);
		last = &w;
	}
	return list;
}

Launch World::launch(int rank, const std::vector<Work> &works, int storage)
{
	// The first batches of all channels come first, then all others, so that the jumps of a chain differ.
	Launch out;
	std::vector<uint32_t> offsets(works.size());
	uint64_t mask = 0;
	size_t batches = 0;
	std::vector<std::vector<BatchHead>> chains;
	for (int c = 0; c < options_.channels; c++) {
		std::vector<BatchHead> list = chain(works, offsets, c, &out);
		if (list.empty())
			continue;
		mask |= uint64_t(1) << c;
		batches += list.size();
	}
	out.args.resize(sizeof(Args) + batches * sizeof(BatchHead));
	offsets = store(rank, works, storage, &out);
	for (int c = 0; c < options_.channels; c++) {
		if (mask >> c & 1)
			chains.push_back(chain(works, offsets, c, &out));
	}
	BatchHead *heads = reinterpret_cast<BatchHead *>(out.args.data() + sizeof(Args));
	size_t next = chains.size();
	for (size_t b = 0; b < chains.size(); b++) {
		size_t at = b;
		for (size_t k = 0; k < chains[b].size(); k++) {
			BatchHead h = chains[b][k];
			bool more = k + 1 < chains[b].size();
			h.jump = more ? static_cast<uint32_t>(next - at) & 0x3fff : 0;
			std::memcpy(static_cast<void *>(heads + at), &h, sizeof h);
			at = more ? next++ : at;
		}
	}
	Args a = { comm(rank), mask, static_cast<uint8_t>(storage), kFifoBytes - 1,
		fifos_[static_cast<size_t>(rank)].data() };
	std::memcpy(out.args.data(), &a, sizeof a);
	out.grid = static_cast<unsigned>(__builtin_popcountll(mask));
	return out;
}

} // namespace fake
