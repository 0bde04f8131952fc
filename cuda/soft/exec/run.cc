// SPDX-License-Identifier: Apache-2.0
//
// Runs a grid: the caller's thread, and threads of a pool if the host has enough cores, poll the blocks in turn.
#include "exec.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <set>

#include "algos.h"
#include "clock.h"
#include "conn.h"
#include "cost.h"
#include "ledger.h"
#include "nvls.h"
#include "patience.h"
#include "polled.h"
#include "pool.h"
#include "stats.h"

namespace softexec {
namespace {

enum CudaError {
	kCudaSuccess = 0,
	kCudaErrorInvalidValue = 1,
	kCudaErrorLaunchTimeout = 702,
	kCudaErrorNotSupported = 801
};

std::atomic<const Layout *> layout{ nullptr };

constexpr uint64_t kProfilerEvents = 64; // entries of a channel's profiler ring; 16 bytes each: counter, time

// Runs the works of one block in order.
class BlockRunner {
public:
	BlockRunner(const Comm &c, Block &b) : comm_(c), block_(b)
	{
		const Layout &l = *c.layout;
		if (l.ch_counter != kAbsent)
			counter_ = get<uint64_t>(b.channel.base, l.ch_counter);
	}

	// The channel begins: on a real clock it could be launched at `ready`, and is due.
	void begin(int64_t ready, int64_t due) { ready_ = ready, due_ = due; }

	Status poll()
	{
		if (due_ != 0) {
			const ddlemu_played what = { DDLEMU_LAUNCHES, 0, ready_, 0, due_, node_calls()->now() };
			node_calls()->played(&what);
			due_ = 0;
		}
		bool progress = false;
		if (running_.empty()) {
			if (!start_next())
				return Status::kDone;
			progress = true;
		}
		for (size_t i = 0; i < running_.size();) {
			Status s = running_[i]->poll();
			progress |= s != Status::kBlocked;
			if (s == Status::kDone) {
				running_.erase(running_.begin() + static_cast<long>(i));
			} else {
				i++;
			}
		}
		return progress ? Status::kProgress : Status::kBlocked;
	}

	// The virtual time at which it can go on by itself.
	int64_t next() const
	{
		int64_t first = kNoTime;
		for (const auto &r : running_)
			first = std::min(first, r->next());
		return first;
	}

private:
	// Starts the next collective, or all Send/Recvs or broadcasts of a batch at once. Returns false at the end.
	bool start_next()
	{
		while (batch_ < block_.batches.size()) {
			Batch &b = block_.batches[batch_];
			if (work_ == 0)
				write_timestamps(b, comm_.layout->comm_started);
			if (work_ < b.colls.size()) {
				start_collective(comm_, block_.channel, *b.func, b.colls[work_++], &running_);
				return true;
			}
			if (work_ == 0 && b.colls.empty()) {
				bool sends = false;
				for (const P2pWork &w : b.p2ps)
					sends |= start_p2p(comm_, block_.channel, w, !sent_, &running_);
				sent_ |= sends;
				if (!b.bcasts.empty())
					start_broadcasts(comm_, block_.channel, b, &running_);
				work_ = 1;
				if (!running_.empty())
					return true;
			}
			end_batch(b);
		}
		return false;
	}

	void end_batch(const Batch &b)
	{
		const Layout &l = *comm_.layout;
		write_timestamps(b, l.comm_completed);
		counter_ += b.colls.size() + b.p2ps.size() + b.bcasts.size();
		if (l.ch_counter != kAbsent)
			put<uint64_t>(block_.channel.base, l.ch_counter, counter_);
		batch_++;
		work_ = 0;
	}

	// Writes the timestamps of those works of a batch that ask for them. NCCL's proxy waits for the counter, so it
	// is written after the time.
	void write_timestamps(const Batch &b, uint32_t table)
	{
		if (table == kAbsent)
			return;
		auto write = [&](size_t i, bool wanted) {
			if (!wanted)
				return;
			char *rings = get<char *>(comm_.base, table);
			uint64_t n = counter_ + 1 + i;
			char *entry = rings +
				(static_cast<uint64_t>(block_.channel.id) * kProfilerEvents + n % kProfilerEvents) * 16;
			put<uint64_t>(entry, 8, now_ns());
			store_release(reinterpret_cast<uint64_t *>(entry), n);
		};
		for (size_t i = 0; i < b.colls.size(); i++)
			write(i, b.colls[i].profiled);
		for (size_t i = 0; i < b.p2ps.size(); i++)
			write(i, b.p2ps[i].profiled);
	}

	const Comm &comm_;
	Block &block_;
	Runners running_;
	size_t batch_ = 0, work_ = 0;
	bool sent_ = false; // a batch with sends to other ranks, or receives, has begun
	int64_t ready_ = 0, due_ = 0; // see begin; due_ 0: it has begun, or nobody counts it
	uint64_t counter_ = 0; // works that this channel has finished in all kernels so far
};

// A running grid. Several threads may poll its blocks; a block is polled by one thread at a time.
class Grid : public Polled {
public:
	explicit Grid(Plan plan)
		: plan_(std::move(plan)),
		  busy_(plan_.blocks.size()),
		  done_(plan_.blocks.size(), false),
		  next_(plan_.blocks.size()),
		  unfinished_(plan_.blocks.size())
	{
		runners_.reserve(plan_.blocks.size());
		for (Block &b : plan_.blocks)
			runners_.emplace_back(plan_.comm, b);
		for (std::atomic<int64_t> &n : next_)
			n.store(kNoTime, std::memory_order_relaxed);
	}

	// Runs the grid in virtual time, until it is done or aborted, or nothing is left to happen.
	void run_virtual(const ddlemu_clock_calls *clock)
	{
		const uint64_t begin = now_ns();
		uint64_t polled = 0;
		Patience patience;
		add_polled(this);
		while (!finished() && !aborted() && !is_deadlocked() && !failed()) {
			const bool others_poll = is_polled();
			const ddlemu_clock_number number = others_poll ? DDLEMU_SIGNALS : DDLEMU_EVENTS;
			const uint32_t seen = clock->read(number);
			if (others_poll != is_polled() || finished())
				continue;
			const uint64_t from = now_ns();
			const bool progress = !others_poll && poll();
			polled += now_ns() - from;
			if (progress || progressed_.exchange(false, std::memory_order_relaxed))
				patience.renew();
			else if (patience.is_over())
				failed_ = !aborted();
			else
				clock->idle(thread_actor("soft-stream"), number, seen, others_poll ? kNoTime : next());
		}
		remove_polled(this);
		counters.wait_ns.fetch_add(now_ns() - begin - polled, std::memory_order_relaxed);
	}

	bool poll() override
	{
		const bool progress = poll_some(0, 1);
		if (Direct::failed())
			failed_ = true;
		if (progress) {
			progressed_.store(true, std::memory_order_relaxed);
			raise_number(finished() ? DDLEMU_SIGNALS : DDLEMU_EVENTS);
		}
		return progress;
	}

	// Another thread may have to know it: a progress thread is about to be idle.
	int64_t next() const override
	{
		int64_t first = kNoTime;
		for (const std::atomic<int64_t> &n : next_)
			first = std::min(first, n.load(std::memory_order_relaxed));
		return first;
	}

	// Waits, on a real clock, until the kernel begins that could be launched at `ready`.
	void begin_at(int64_t ready, int64_t due)
	{
		for (BlockRunner &b : runners_)
			b.begin(ready, due);
		sleep_real_until(due);
	}

	// Runs the grid on this thread until it is done or aborted. After that no thread accesses the user's memory.
	void run(size_t threads)
	{
		poll_until_done(0, threads);
		closed_ = true;
		Idle idle;
		while (helpers_ != 0)
			idle.wait();
		idle.end();
	}

	// Polls blocks from another thread, unless the grid is finished already.
	void help(size_t me, size_t threads)
	{
		helpers_++;
		if (!closed_)
			poll_until_done(me, threads);
		helpers_--;
	}

	bool finished() const { return unfinished_.load(std::memory_order_acquire) == 0; }
	bool failed() const { return failed_.load(std::memory_order_acquire); }
	bool aborted() const { return plan_.comm.abort && load_acquire(plan_.comm.abort) != 0; }

private:
	// Polls this thread's blocks. If none makes progress, polls all blocks; if none of those does either, waits.
	void poll_until_done(size_t me, size_t threads)
	{
		Idle idle;
		Patience patience;
		while (!finished() && !failed()) {
			const bool progress = poll_some(me, threads) || (threads > 1 && poll_some(0, 1));
			if (Direct::failed())
				failed_ = true;
			if (progress) {
				idle.end();
				patience.renew();
			} else if (aborted() || patience.is_over()) {
				failed_ = !aborted();
				break;
			} else {
				idle.wait();
			}
		}
		idle.end();
	}

	// Polls each block from first on that is a multiple of step away.
	bool poll_some(size_t first, size_t step)
	{
		bool progress = false;
		for (size_t i = first; i < runners_.size(); i += step)
			progress |= poll_block(i);
		return progress;
	}

	bool poll_block(size_t i)
	{
		if (busy_[i].exchange(true, std::memory_order_acquire))
			return false;
		Status s = done_[i] ? Status::kBlocked : runners_[i].poll();
		if (s == Status::kDone) {
			done_[i] = true;
			unfinished_.fetch_sub(1, std::memory_order_release);
		}
		if (virtual_clock() && node_time())
			next_[i].store(done_[i] ? kNoTime : runners_[i].next(), std::memory_order_relaxed);
		busy_[i].store(false, std::memory_order_release);
		return s != Status::kBlocked;
	}

	Plan plan_;
	std::vector<BlockRunner> runners_;
	std::vector<std::atomic<bool>> busy_;
	std::vector<char> done_; // an entry is only accessed by the thread that has set its busy_
	std::vector<std::atomic<int64_t>> next_; // the virtual time at which the first action of each block ends
	std::atomic<size_t> unfinished_;
	std::atomic<bool> closed_{ false };
	std::atomic<bool> failed_{ false }; // it waited too long after a rank died, or a message has no time
	std::atomic<bool> progressed_{ false }; // in virtual time, since the thread that runs it looked last
	std::atomic<int> helpers_{ 0 };
};

// Checks the connections of every batch. NCCL sets up only the connections that the batches use, so all batches must
// have been read before.
bool check_connections(const Plan &p, std::string *why)
{
	const Layout &l = *p.comm.layout;
	for (const Block &b : p.blocks) {
		for (const Batch &batch : b.batches) {
			Coll coll = batch.func->coll;
			bool direct_code = l.direct_without_reg && batch.func->proto == kSimple &&
				(coll == Coll::kAllReduce || coll == Coll::kAllGather || coll == Coll::kSendRecv);
			const bool nvls = is_nvls(*batch.func);
			if (nvls && (b.channel.nvls.heads <= 0 || b.channel.nvls.heads > kMaxHeads)) {
				*why = "NVLS without heads, or with more than " + std::to_string(kMaxHeads);
				return false;
			}
			const std::vector<ConnEnd> ends = connections_of(p.comm, b.channel, *batch.func, batch);
			if (nvls && !members_are_there(l, ends)) {
				*why = "multicast memory without the memory of all ranks of the node (has one of them ended?)";
				return false;
			}
			for (const ConnEnd &end : ends) {
				bool direct = get<int>(end.conn, l.conn_flags) & kConnDirectWrite &&
					get<char *>(end.conn, l.conn_fifo) == nullptr;
				if (direct_code && direct) {
					*why = "direct P2P between ranks of one process (set NCCL_P2P_DIRECT_DISABLE=1 or use a process per rank)";
					return false;
				}
				if (end.receives && get<int>(end.conn, l.conn_net_device) == kNetDeviceUnpack) {
					*why = "a net device whose data the kernel must unpack";
					return false;
				}
			}
		}
	}
	return true;
}

int refuse(const std::string &why)
{
	counters.refused.fetch_add(1, std::memory_order_relaxed);
	std::fprintf(stderr, "ddlemu: software CUDA cannot run NCCL's kernel: %s\n", why.c_str());
	return kCudaErrorNotSupported;
}

int fail_waiting()
{
	if (const int rank = lost_rank.load(); rank >= 0)
		std::fprintf(stderr, "ddlemu: rank %d of the job died: a kernel of NCCL that waits is ended\n", rank);
	return kCudaErrorLaunchTimeout;
}

// Tells NCCL's host code that the works in the FIFO have been read.
void return_fifo_credits(const Plan &p)
{
	const Layout &l = *p.comm.layout;
	if (l.comm_consumed == kAbsent || !p.fifo)
		return;
	uint32_t *consumed = get<uint32_t *>(p.comm.base, l.comm_consumed);
	for (const Block &b : p.blocks)
		store_release(consumed + b.channel.id, b.consumed);
	raise_number(DDLEMU_EVENTS);
}

// Estimates the bytes that a launch moves.
size_t estimate_bytes(const Plan &p)
{
	size_t bytes = 0;
	for (const Block &b : p.blocks) {
		for (const Batch &batch : b.batches) {
			for (const CollWork &w : batch.colls)
				bytes += channel_share(w, b.channel.id, batch.func->proto, 1).size *
					type_size(batch.func->type);
			for (const P2pWork &w : batch.p2ps)
				bytes += (w.send_bytes + w.recv_bytes) / static_cast<size_t>(w.channels);
			for (const BcastWork &w : batch.bcasts)
				bytes += w.bytes;
		}
	}
	return bytes;
}

// Returns the number of channels that have more to do than to copy within the rank.
unsigned busy_channels(const Plan &p)
{
	auto is_busy = [&](const Batch &b) {
		auto moves = [&](const P2pWork &w) { return w.send_rank != p.comm.rank; };
		return !b.colls.empty() || !b.bcasts.empty() || std::any_of(b.p2ps.begin(), b.p2ps.end(), moves);
	};
	return static_cast<unsigned>(std::count_if(p.blocks.begin(), p.blocks.end(),
		[&](const Block &b) { return std::any_of(b.batches.begin(), b.batches.end(), is_busy); }));
}

// Returns true if PAT has a connection without a proxy. NCCL uses PAT with one rank per node only, so its runner knows
// no links within a node.
bool has_pat_within_node(const Plan &p)
{
	for (const Block &b : p.blocks) {
		for (const Batch &batch : b.batches) {
			if (batch.func->algo != Algo::kPat)
				continue;
			for (const ConnEnd &e : connections_of(p.comm, b.channel, *batch.func, batch)) {
				if (get<char *>(e.conn, p.comm.layout->conn_fifo) == nullptr)
					return true;
			}
		}
	}
	return false;
}

// Says why the times of a launch are not known in a fabric whose nodes cost time.
bool check_node_time(const Plan &p, std::string *why)
{
	if (!node_time())
		return true;
	if (has_pat_within_node(p)) {
		*why = "PAT within a node, in a fabric whose nodes cost time";
		return false;
	}
	const std::set<int> members(p.comm.members.begin(), p.comm.members.end()); // one rank per process
	if (members.size() == static_cast<size_t>(p.comm.nranks) && *members.begin() >= 0 &&
		(node_calls()->ranks == 0 || *members.rbegin() < static_cast<int>(node_calls()->ranks)))
		return true;
	*why = "a communicator whose ranks in the job are not known, in a fabric whose nodes cost time (an unknown "
	       "build of NCCL, or several ranks in a process)";
	return false;
}

int run(const Layout &l, const softexec_launch &launch)
{
	Plan plan;
	std::string why;
	if (!read_launch(l, launch, &plan, &why) || !check_connections(plan, &why) || !check_node_time(plan, &why))
		return refuse(why);
	return_fifo_credits(plan);
	name_tasks(&plan);
	// In virtual time helpers would only share the cores with other ranks, while time stands still.
	const ddlemu_clock_calls *clock = virtual_clock();
	const size_t threads = clock ? 1 : thread_count(plan.blocks.size(), plan.comm.nranks, estimate_bytes(plan));
	const unsigned channels = busy_channels(plan);
	auto grid = std::make_shared<Grid>(std::move(plan));
	if (const ddlemu_node_calls *node = played_calls()) {
		const int64_t ready = launch.ready != 0 ? launch.ready : node->now();
		grid->begin_at(ready, ready + node_launch(node->time, channels));
	}
	for (size_t i = 1; i < threads; i++)
		run_in_pool([=] { grid->help(i, threads); });
	if (clock) {
		if (const ddlemu_node_time *t = node_time())
			clock->sleep_until(thread_actor("soft-stream"), clock->now() + node_launch(t, channels));
		grid->run_virtual(clock);
	} else {
		grid->run(threads);
	}
	if (!grid->finished() && (grid->failed() || is_deadlocked()))
		return fail_waiting();
	if (!grid->aborted())
		counters.launches.fetch_add(1, std::memory_order_relaxed);
	return kCudaSuccess;
}

} // namespace
} // namespace softexec

extern "C" int softexec_select_version(int nccl_version)
{
	const softexec::Layout *l = softexec::layout_for(nccl_version);
	softexec::layout.store(l);
	return l ? 0 : -1;
}

extern "C" void softexec_rank_died(int rank) { softexec::lost_rank.store(rank); }

extern "C" int softexec_run(const struct softexec_launch *l)
{
	if (!l)
		return softexec::kCudaErrorInvalidValue;
	const softexec::Layout *layout = softexec::layout.load();
	if (!layout)
		return softexec::refuse("this version of NCCL (supported: 2.22.3 and 2.29.7)");
	return softexec::run(*layout, *l);
}
