// SPDX-License-Identifier: Apache-2.0
//
// Runs a grid: the caller's thread, and more threads of a pool where the host has the cores, go round the blocks and
// poll them.
#include "exec.h"

#include <atomic>
#include <cstdio>
#include <memory>

#include "algos.h"
#include "conn.h"
#include "pool.h"
#include "stats.h"

namespace softexec {
namespace {

enum CudaError { kCudaSuccess = 0, kCudaErrorInvalidValue = 1, kCudaErrorNotSupported = 801 };

std::atomic<const Layout *> layout{ nullptr };

constexpr uint64_t kProfilerEvents = 64; // entries of a channel's profiler ring, 16 bytes each: counter, time

// Runs one block's works in order.
class BlockRunner {
public:
	BlockRunner(const Comm &c, Block &b) : comm_(c), block_(b)
	{
		const Layout &l = *c.layout;
		if (l.ch_counter != kAbsent)
			counter_ = get<uint64_t>(b.channel.base, l.ch_counter);
	}

	Status poll()
	{
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

private:
	// Starts the next work, or all Send/Recv works of a batch at once. Returns false at the end.
	bool start_next()
	{
		while (batch_ < block_.batches.size()) {
			Batch &b = block_.batches[batch_];
			if (work_ == 0)
				profile(b, comm_.layout->comm_started);
			if (work_ < b.colls.size()) {
				start_collective(comm_, block_.channel, *b.func, b.colls[work_++], &running_);
				return true;
			}
			if (work_ == 0 && b.colls.empty()) {
				for (const P2pWork &w : b.p2ps)
					start_p2p(comm_, block_.channel, w, &running_);
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
		profile(b, l.comm_completed);
		counter_ += b.colls.size() + b.p2ps.size() + b.bcasts.size();
		if (l.ch_counter != kAbsent)
			put<uint64_t>(block_.channel.base, l.ch_counter, counter_);
		batch_++;
		work_ = 0;
	}

	// Stamps the works of a batch whose profiler asked for it. NCCL's proxy waits for the counters, so they come
	// last.
	void profile(const Batch &b, uint32_t table)
	{
		if (table == kAbsent)
			return;
		auto stamp = [&](size_t i, bool wanted) {
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
			stamp(i, b.colls[i].profiled);
		for (size_t i = 0; i < b.p2ps.size(); i++)
			stamp(i, b.p2ps[i].profiled);
	}

	const Comm &comm_;
	Block &block_;
	Engines running_;
	size_t batch_ = 0, work_ = 0;
	uint64_t counter_ = 0; // works that this channel has done, over all kernels
};

// A grid that is being run. Several threads may poll its blocks; each block has one at a time.
class Grid {
public:
	explicit Grid(Plan plan)
		: plan_(std::move(plan)),
		  busy_(plan_.blocks.size()),
		  done_(plan_.blocks.size(), false),
		  left_(plan_.blocks.size())
	{
		runners_.reserve(plan_.blocks.size());
		for (Block &b : plan_.blocks)
			runners_.emplace_back(plan_.comm, b);
	}

	// Runs the grid on this thread until it is done or aborted. Nobody touches the user's memory after that.
	void run(size_t threads)
	{
		poll_until_done(0, threads);
		closed_ = true;
		Idle idle;
		while (helpers_ != 0)
			idle.wait();
		idle.end();
	}

	// Helps from another thread, which may come too late.
	void help(size_t me, size_t threads)
	{
		helpers_++;
		if (!closed_)
			poll_until_done(me, threads);
		helpers_--;
	}

	bool aborted() const { return plan_.comm.abort && load_acquire(plan_.comm.abort) != 0; }

private:
	// Polls this thread's blocks, those of others if there is nothing to do, and waits if there is nothing at all.
	void poll_until_done(size_t me, size_t threads)
	{
		Idle idle;
		while (left_.load(std::memory_order_acquire) != 0) {
			bool progress = false;
			for (size_t i = me; i < runners_.size(); i += threads)
				progress |= poll(i);
			for (size_t i = 0; !progress && threads > 1 && i < runners_.size(); i++)
				progress |= poll(i);
			if (progress) {
				idle.end();
			} else if (aborted()) {
				break;
			} else {
				idle.wait();
			}
		}
		idle.end();
	}

	bool poll(size_t i)
	{
		if (busy_[i].exchange(true, std::memory_order_acquire))
			return false;
		Status s = done_[i] ? Status::kBlocked : runners_[i].poll();
		if (s == Status::kDone) {
			done_[i] = true;
			left_.fetch_sub(1, std::memory_order_release);
		}
		busy_[i].store(false, std::memory_order_release);
		return s != Status::kBlocked;
	}

	Plan plan_;
	std::vector<BlockRunner> runners_;
	std::vector<std::atomic<bool>> busy_;
	std::vector<char> done_; // each guarded by its busy_
	std::atomic<size_t> left_;
	std::atomic<bool> closed_{ false };
	std::atomic<int> helpers_{ 0 };
};

// Checks the connections of every batch. Only a channel's own connections are known to be set up, so this comes after
// reading.
bool check_links(const Plan &p, std::string *why)
{
	const Layout &l = *p.comm.layout;
	for (const Block &b : p.blocks) {
		for (const Batch &batch : b.batches) {
			Coll coll = batch.func->coll;
			bool direct_code = l.direct_without_reg && batch.func->proto == kSimple &&
				(coll == Coll::kAllReduce || coll == Coll::kAllGather || coll == Coll::kSendRecv);
			for (const Link &link : links_of(p.comm, b.channel, *batch.func, batch)) {
				bool direct = get<int>(link.conn, l.conn_flags) & kConnDirectWrite &&
					get<char *>(link.conn, l.conn_fifo) == nullptr;
				if (direct_code && direct) {
					*why = "direct P2P between ranks of one process (set NCCL_P2P_DIRECT_DISABLE=1 or use a process per rank)";
					return false;
				}
				if (link.receives && get<int>(link.conn, l.conn_net_device) == kNetDeviceUnpack) {
					*why = "a net device that has the kernel unpack its data";
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

void return_fifo_credits(const Plan &p)
{
	const Layout &l = *p.comm.layout;
	if (l.comm_consumed == kAbsent || !p.fifo)
		return;
	uint32_t *consumed = get<uint32_t *>(p.comm.base, l.comm_consumed);
	for (const Block &b : p.blocks)
		store_release(consumed + b.channel.id, b.consumed);
}

// About how many bytes a launch moves.
size_t bytes_of(const Plan &p)
{
	size_t bytes = 0;
	for (const Block &b : p.blocks) {
		for (const Batch &batch : b.batches) {
			for (const CollWork &w : batch.colls)
				bytes += channel_part(w, b.channel.id, batch.func->proto, 1).size *
					type_size(batch.func->type);
			for (const P2pWork &w : batch.p2ps)
				bytes += (w.send_bytes + w.recv_bytes) / static_cast<size_t>(w.channels);
			for (const BcastWork &w : batch.bcasts)
				bytes += w.bytes;
		}
	}
	return bytes;
}

int run(const Layout &l, const softexec_launch &launch)
{
	Plan plan;
	std::string why;
	if (!read_launch(l, launch, &plan, &why) || !check_links(plan, &why))
		return refuse(why);
	return_fifo_credits(plan); // the works have been copied
	size_t threads = threads_for(plan.blocks.size(), plan.comm.nranks, bytes_of(plan));
	auto grid = std::make_shared<Grid>(std::move(plan));
	for (size_t i = 1; i < threads; i++)
		start_in_pool([=] { grid->help(i, threads); });
	grid->run(threads);
	if (!grid->aborted())
		counters.launches.fetch_add(1, std::memory_order_relaxed);
	return kCudaSuccess;
}

} // namespace
} // namespace softexec

extern "C" int softexec_version(int nccl_version)
{
	const softexec::Layout *l = softexec::layout_for(nccl_version);
	softexec::layout.store(l);
	return l ? 0 : -1;
}

extern "C" int softexec_run(const struct softexec_launch *l)
{
	if (!l)
		return softexec::kCudaErrorInvalidValue;
	const softexec::Layout *layout = softexec::layout.load();
	if (!layout)
		return softexec::refuse("this version of NCCL (known: 2.22.3 and 2.29.7)");
	return softexec::run(*layout, *l);
}
