// SPDX-License-Identifier: Apache-2.0
//
// Launches: which ones are refused and with which message, chains of batches, the profiler's timestamps, aborts.
#include <atomic>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "fake_world.h"
#include "multicast.h"

namespace test {
namespace {

using fake::Launch;
using fake::Transport;
using fake::World;

constexpr int kNotSupported = 801;

struct Buffers {
	std::vector<float> in = std::vector<float>(3000, 1), out = std::vector<float>(3000, -1);
};

// Runs f and returns what it wrote to stderr.
template <typename F>
std::string stderr_of(F f)
{
	char path[] = "/tmp/exec_testXXXXXX";
	int to = mkstemp(path), old = dup(2);
	unlink(path);
	dup2(to, 2);
	f();
	dup2(old, 2);
	close(old);
	char text[4096];
	ssize_t n = pread(to, text, sizeof text, 0);
	close(to);
	return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
}

fake::Work all_reduce(World &w, Buffers &b, const char *func = "AllReduce_Sum_f32_RING_SIMPLE")
{
	return w.collective(func, w.options().channels, b.in.data(), b.out.data(), 1000, 128, 4, 0, 0, false);
}

struct Refused {
	const char *what; // a part of the message
	int version;
	std::function<void(World &, std::vector<fake::Work> *)> works; // changes the works
	std::function<void(World &, Launch *)> change; // changes the launch
};

template <typename T>
std::function<void(World &, std::vector<fake::Work> *)> in_work(void (*f)(T &))
{
	return [f](World &, std::vector<fake::Work> *w) { f(*reinterpret_cast<T *>(w->front().bytes.data())); };
}

std::function<void(World &, std::vector<fake::Work> *)> function(const char *name)
{
	return [name](World &, std::vector<fake::Work> *w) { w->front().func = name; };
}

std::function<void(World &, std::vector<fake::Work> *)> send_recv(void (*f)(fake::P2p &))
{
	return [f](World &, std::vector<fake::Work> *w) {
		fake::P2p p = {};
		p.send_rank = p.recv_rank = 1, p.channels = p.send_channels = p.recv_channels = 1,
		p.send_chunk = p.recv_chunk = 64;
		f(p);
		*w = { { 0, "SendRecv", std::vector<char>(sizeof p), fake::kP2pWork } };
		std::memcpy(w->front().bytes.data(), &p, sizeof p);
	};
}

fake::BatchHead *batch(Launch *l) { return reinterpret_cast<fake::BatchHead *>(l->args.data() + sizeof(fake::Args)); }

std::vector<Refused> refusals()
{
	using C22 = fake::v2_22_3::Coll;
	using C29 = fake::v2_29_7::Coll;
	return {
		{ "regUsed", 22203, in_work<C22>([](C22 &c) { c.reg = 1; }), {} },
		{ "regUsed", 22907, in_work<C29>([](C29 &c) { c.reg = 1; }), {} },
		{ "netRegUsed", 22907, in_work<C29>([](C29 &c) { c.net_reg = 1; }), {} },
		{ "CollReg", 22203,
			[](World &, auto *w) { w->front().type = fake::kCollRegWork, w->front().bytes.resize(256); },
			{} },
		{ "sendRegistered", 22203, send_recv([](fake::P2p &p) { p.reg = 1; }), {} },
		{ "recvNetReg", 22907, send_recv([](fake::P2p &p) { p.reg = 2; }), {} },
		{ "sendIpcReg", 22907, send_recv([](fake::P2p &p) { p.ipc = 1; }), {} },
		{ "not a power of 2", 22907, send_recv([](fake::P2p &p) { p.channels = 3; }), {} },
		{ "8-bit floats", 22907, function("AllReduce_Sum_f8e4m3_RING_LL"), {} },
		{ "on several nodes", 22203, function("AllReduce_Sum_f32_NVLS_SIMPLE"), {} },
		{ "without heads", 22907, function("AllReduce_Sum_f32_NVLS_TREE_SIMPLE"), {} },
		{ "CollNet needs", 22907, function("AllGather_COLLNET_DIRECT_SIMPLE"), {} },
		{ "PAT has no averages", 22907, function("ReduceScatter_PreMulSum_f32_PAT_SIMPLE"), {} },
		{ "no such reduction", 22203, function("AllReduce_SumPostDiv_u32_RING_LL"), {} }, // division by zero
		{ "does not match its function", 22203, function("SendRecv"), {} },
		{ "symmetric memory kernel", 22907, {},
			[](World &, Launch *l) { l->kernel = "_Z33ncclSymkDevKernel_AllReduce_RSxLD"; } },
		{ "unknown kernel saxpy", 22907, {}, [](World &, Launch *l) { l->kernel = "saxpy"; } },
		{ "does not match its functions", 22203, {},
			[](World &, Launch *l) { l->kernel = "ncclDevKernel_AllReduce_Sum_f16_RING_LL(args)"; } },
		{ "does not match its channels", 22203, {}, [](World &, Launch *l) { l->grid = 2; } },
		{ "arguments that are too short", 22203, {}, [](World &, Launch *l) { l->args.resize(16); } },
		{ "batch beyond the end", 22203, {}, [](World &, Launch *l) { batch(l)->jump = 500; } },
		{ "work beyond the end", 22203, {}, [](World &, Launch *l) { batch(l)->base += 64; } },
		{ "function number 20000", 22203, {}, [](World &, Launch *l) { batch(l)->func = 20000; } },
		{ "direct P2P", 22203, {}, [](World &w, Launch *) { w.peer(0, 0, 1).send[0].flags = 1; } },
		{ "unpack", 22907, {}, [](World &w, Launch *) { w.peer(0, 0, 1).recv[0].net_device.type = 1; } },
	};
}

// A rank of the node has ended before this one has found its memory.
void lost_member_test()
{
	softexec_select_version(22907);
	World w({ 22907, 2, 1, Transport::kShared, 0, 2, 2 });
	alignas(4096) static char nowhere[4096];
	softexec::add_multicast(nowhere, sizeof nowhere, [] { return std::vector<char *>(); });
	w.peer(0, 0, 3).recv[0].tail = reinterpret_cast<uint64_t *>(nowhere + 64);
	Buffers b;
	std::vector<fake::Work> works = { all_reduce(w, b) };
	works.front().func = "AllReduce_Sum_f32_NVLS_SIMPLE";
	int result = 0;
	std::string text = stderr_of([&] { result = w.run({ w.launch(0, works, 0) }, "lost member").front(); });
	CHECK(result == kNotSupported && text.find("without the memory of all ranks") != std::string::npos,
		"lost member: returns %d, '%s'", result, text.c_str());
	softexec::remove_multicast(nowhere);
}

void refusal_tests()
{
	lost_member_test();
	for (const Refused &r : refusals()) {
		softexec_select_version(r.version);
		World w({ r.version, 2, 1, Transport::kShared, 0 });
		Buffers b;
		std::vector<fake::Work> works = { all_reduce(w, b) };
		if (r.works)
			r.works(w, &works);
		Launch l = w.launch(0, works, 0);
		if (r.change)
			r.change(w, &l);
		struct softexec_stats before, after;
		softexec_stats(&before);
		int result = 0;
		std::string text = stderr_of([&] { result = w.run({ l }, r.what).front(); });
		softexec_stats(&after);
		CHECK(result == kNotSupported, "%s: returns %d", r.what, result);
		CHECK(text.find(r.what) != std::string::npos && text.find('\n') == text.size() - 1,
			"%s: message is '%s'", r.what, text.c_str());
		CHECK(after.refused == before.refused + 1 && after.launches == before.launches,
			"%s: not counted as refused", r.what);
		CHECK(w.peer(0, 0, 1).send[0].step == 0 && b.out == Buffers().out, "%s: memory was changed", r.what);
	}
	softexec_select_version(21805);
	int result = 0;
	std::string text = stderr_of([&] {
		softexec_launch l = { "ncclDevKernel_Generic", &result, sizeof result, 1, 32, 0, 0, nullptr, 0, 0 };
		result = softexec_run(&l);
	});
	CHECK(result == kNotSupported && text.find("version") != std::string::npos, "unknown version: %d '%s'", result,
		text.c_str());
	CHECK(softexec_run(nullptr) == 1, "no launch at all is an invalid value");
}

// A direct connection is refused for Simple only; LL and LL128 do not use it.
void direct_with_lines()
{
	for (const char *func : { "AllReduce_Sum_f32_RING_LL", "AllReduce_Sum_f32_RING_LL128" }) {
		softexec_select_version(22203);
		World w({ 22203, 2, 1, Transport::kShared, 0 });
		w.peer(0, 0, 1).send[0].flags = w.peer(1, 0, 0).recv[0].flags = 1;
		Buffers b[2];
		std::vector<Launch> l;
		for (int r = 0; r < 2; r++) {
			fake::Work work =
				w.collective(func, 1, b[r].in.data(), b[r].out.data(), 700, 480, 1, 0, 0, false);
			l.push_back(w.launch(r, { work }, 0));
		}
		for (int result : w.run(l, func))
			CHECK(result == 0, "%s over a direct connection: %d", func, result);
		CHECK(b[0].out[699] == 2 && b[1].out[0] == 2, "%s over a direct connection: wrong sum", func);
	}
}

// Several functions in a launch, two works in a batch, more threads than cores, and the profiler's timestamps.
void chain_and_profiler()
{
	setenv("DDLEMU_SOFT_THREADS", "3", 1);
	softexec_select_version(22907);
	World w({ 22907, 2, 3, Transport::kNet, 0 });
	Buffers sum[2], again[2], gather[2];
	std::vector<Launch> l;
	w.mark_ring(softexec::kLL, 1, 1);
	for (int r = 0; r < 2; r++) {
		auto add = [&](Buffers &b, const char *func, size_t unit) {
			fake::Work work = w.collective(
				func, 3, b.in.data(), b.out.data(), 1000 * unit, 4 * unit, 30, 0, 0, false);
			if (func[3] == 'R')
				reinterpret_cast<fake::v2_29_7::Coll *>(work.bytes.data())->profiled = 1;
			return work;
		};
		l.push_back(w.launch(r,
			{ add(sum[r], "AllReduce_Sum_f32_RING_LL", 1), add(again[r], "AllReduce_Sum_f32_RING_LL", 1),
				add(gather[r], "AllGather_RING_LL", 4) },
			0));
	}
	for (int result : w.run(l, "chain"))
		CHECK(result == 0, "chain: %d", result);
	w.check_steps("chain");
	for (int r = 0; r < 2; r++) {
		CHECK(sum[r].out[0] == 2 && sum[r].out[999] == 2 && again[r].out[500] == 2, "chain: wrong sums");
		CHECK(gather[r].out[0] == 1 && gather[r].out[1999] == 1 && gather[r].out[2000] == -1,
			"chain: wrong gather");
		auto *all = static_cast<fake::v2_29_7::All *>(w.comm(r));
		for (int c = 0; c < 3; c++)
			CHECK(all->channels[c].counter == 3, "channel %d has counted %lu works, not 3", c,
				all->channels[c].counter);
	}
	for (size_t c = 0; c < 3; c++) {
		const auto &start = w.started[c].data, &end = w.completed[c].data;
		CHECK(start[2].counter == 2 && end[2].counter == 2 && end[1].counter == 1,
			"profiler's counters of channel %zu", c);
		CHECK(start[1].time != 0 && end[1].time >= start[1].time, "profiler's times of channel %zu", c);
		CHECK(start[3].counter == 0, "a work that did not ask for it has a timestamp");
	}
	unsetenv("DDLEMU_SOFT_THREADS");
}

// A single rank waits for its peers until its communicator is aborted. Then it ends without an error, as NCCL's kernels
// do.
void abort_test()
{
	softexec_select_version(22203);
	for (const char *func :
		{ "AllReduce_Sum_f32_RING_SIMPLE", "AllReduce_Sum_f32_RING_LL", "AllReduce_Sum_f32_TREE_LL128" }) {
		World w({ 22203, 2, 2, Transport::kNet, 0 });
		Buffers b;
		Launch l =
			w.launch(1, { w.collective(func, 2, b.in.data(), b.out.data(), 1000, 480, 1, 0, 0, false) }, 0);
		struct softexec_stats before, after;
		softexec_stats(&before);
		// Counts what happens instead of time, which other load on the machine changes.
		std::atomic<bool> aborted{ false };
		std::thread aborter([&] {
			timespec t = { 0, 30 * 1000 * 1000 };
			nanosleep(&t, nullptr);
			__atomic_store_n(&w.abort[0], 1u, __ATOMIC_RELEASE); // another rank's flag: no effect
			nanosleep(&t, nullptr);
			aborted = true;
			__atomic_store_n(&w.abort[1], 1u, __ATOMIC_RELEASE);
		});
		CHECK(w.run({ l }, func).front() == 0, "an aborted launch returns success");
		CHECK(aborted, "%s ended before its abort flag was set", func);
		aborter.join();
		softexec_stats(&after);
		CHECK(after.launches == before.launches, "an aborted launch was counted");
		CHECK(after.wait_ns > before.wait_ns, "waiting was not counted");
	}
}

// A rank of the job has died: a grid that can do nothing fails after a second. Until then, and once the death is said
// to be over, it waits.
void death_test()
{
	softexec_select_version(22203);
	World w({ 22203, 2, 2, Transport::kNet, 0 });
	Buffers b;
	Launch l = w.launch(1,
		{ w.collective("AllReduce_Sum_f32_RING_LL", 2, b.in.data(), b.out.data(), 1000, 480, 1, 0, 0, false) },
		0);
	// The grid must outlive the first death, which is over before a second has passed, unless other load on the
	// machine makes it longer.
	std::atomic<bool> died_again{ false }, first_was_short{ false };
	std::thread killer([&] {
		timespec t = { 0, 50 * 1000 * 1000 }, begin, end;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		softexec_rank_died(3);
		nanosleep(&t, nullptr);
		softexec_rank_died(-1);
		clock_gettime(CLOCK_MONOTONIC, &end);
		first_was_short = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 < 1000;
		t = { 1, 100 * 1000 * 1000 };
		nanosleep(&t, nullptr);
		died_again = true;
		softexec_rank_died(3);
	});
	const int said = w.run({ l }, "a grid whose peer died").front();
	const bool outlived = died_again;
	killer.join();
	softexec_rank_died(-1);
	CHECK(said == 702, "a grid that waits after a death returned %d", said);
	CHECK(outlived || !first_was_short, "the grid ended although the first death was over");
}

} // namespace

void launch_tests()
{
	refusal_tests();
	direct_with_lines();
	chain_and_profiler();
	abort_test();
	death_test();
}

} // namespace test
