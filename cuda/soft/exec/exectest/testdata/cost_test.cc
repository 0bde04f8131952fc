// SPDX-License-Identifier: Apache-2.0
//
// The time of a node: when the actions of a kernel begin and end, on a clock that the test moves, and what is counted
// of them on a real one.
#include "cost.h"

#include <map>
#include <vector>

#include "algos.h"
#include "fake_world.h"

namespace test {
namespace {

using softexec::Proto;

constexpr int64_t kLatency = 1000; // ns of a message on the links of a node, and 1 for each byte

// The clock and its direct flows.
struct FakeClock {
	int64_t now = 5;
	struct Flow {
		ddlemu_direct_ends ends;
		std::vector<int64_t> due;
	};
	std::vector<Flow> flows; // by name, from 1
	ddlemu_node_time time = {};

	// The time at which the next message arrives.
	int64_t next() const
	{
		int64_t first = softexec::kNoTime;
		for (const Flow &f : flows) {
			for (int64_t due : f.due)
				first = due > now ? std::min(first, due) : first;
		}
		return first;
	}
};

FakeClock fake_clock;

uint64_t make(const ddlemu_direct_ends *ends)
{
	fake_clock.flows.push_back({ *ends, {} });
	return fake_clock.flows.size();
}

int post(uint64_t flow, uint64_t bytes, int64_t written)
{
	const int64_t crossed = fake_clock.now + static_cast<int64_t>(bytes);
	fake_clock.flows[flow - 1].due.push_back(std::max(crossed, written) + kLatency);
	return 1;
}

uint64_t arrived(uint64_t flow, uint64_t at_least)
{
	const std::vector<int64_t> &due = fake_clock.flows[flow - 1].due;
	while (at_least < due.size() && due[at_least] <= fake_clock.now)
		at_least++;
	return at_least;
}

ddlemu_node_calls calls()
{
	ddlemu_node_calls c = {};
	c.time = &fake_clock.time;
	c.ranks = 6;
	c.now = [] { return fake_clock.now; };
	c.direct_make = make, c.direct_post = post, c.direct_arrived = arrived;
	return c;
}

// Runs what both ranks do, and returns how long it takes.
int64_t play(softexec::Runners &runners)
{
	const int64_t begin = fake_clock.now;
	while (true) {
		bool progress = false;
		int64_t next = fake_clock.next();
		for (size_t i = 0; i < runners.size();) {
			const softexec::Status s = runners[i]->poll();
			progress |= s != softexec::Status::kBlocked;
			if (s == softexec::Status::kDone) {
				runners.erase(runners.begin() + static_cast<long>(i));
				continue;
			}
			next = std::min(next, runners[i]->next());
			i++;
		}
		if (runners.empty())
			return fake_clock.now - begin;
		if (progress)
			continue;
		if (next == softexec::kNoTime)
			return -1; // nothing is left to happen
		fake_clock.now = next;
	}
}

struct Case {
	Proto proto;
	const char *func;
	size_t elements; // floats
	size_t message; // bytes of a message
	int64_t steps; // actions of one rank that cost its time, one after another
	int64_t messages; // that follow one another
};

// An AllReduce of 2 ranks, which goes once to the other rank and back: the times add up.
void all_reduce_takes(const Case &c, int version)
{
	softexec_select_version(version);
	fake::World w({ version, 2, 1, fake::Transport::kShared, 0 });
	const int64_t step = 100;
	fake_clock = {};
	fake_clock.time.on = 1, fake_clock.time.gpus = 2;
	ddlemu_node_cost &cost = c.proto == softexec::kLL ? fake_clock.time.ll
		: c.proto == softexec::kLL128             ? fake_clock.time.ll128
							  : fake_clock.time.simple;
	cost = { static_cast<double>(step), 0.5, 2 };
	const ddlemu_node_calls table = calls();
	softexec::node_table.store(&table);
	std::vector<std::vector<float>> in, out;
	std::vector<fake::Launch> launches;
	std::vector<softexec::Plan> plans(2);
	softexec::Runners runners;
	for (int r = 0; r < 2; r++) {
		in.emplace_back(c.elements, static_cast<float>(r + 1)), out.emplace_back(c.elements);
		launches.push_back(w.launch(r,
			{ w.collective(c.func, 1, in.back().data(), out.back().data(), c.elements, 4, c.elements / 8, 0,
				0, false) },
			0));
	}
	const int members[] = { 5, 3 };
	for (size_t r = 0; r < 2; r++) {
		const std::string &kernel = launches[r].kernel;
		std::string why;
		if (!softexec::read_launch(w.layout(),
			    { kernel.c_str(), launches[r].args.data(), launches[r].args.size(), launches[r].grid, 0, 0,
				    0, members, 2, 9 },
			    &plans[r], &why)) {
			CHECK(false, "%s: %s", c.func, why.c_str());
			return;
		}
		const softexec::Block &b = plans[r].blocks[0];
		softexec::start_collective(
			plans[r].comm, b.channel, *b.batches[0].func, b.batches[0].colls[0], &runners);
	}
	const int64_t took = play(runners);
	const int64_t bytes = static_cast<int64_t>(c.message);
	const int64_t action = step + bytes / 2; // a message crosses the links while an action writes it
	const int64_t want = (c.steps - c.messages) * action + c.messages * (kLatency + std::max(action, 2 * bytes));
	CHECK(took == want, "%s, version %d: %ld ns, want %ld", c.func, version, static_cast<long>(took),
		static_cast<long>(want));
	for (const std::vector<float> &o : out)
		CHECK(std::all_of(o.begin(), o.end(), [](float x) { return x == 3; }), "%s: a wrong sum", c.func);
	CHECK(fake_clock.flows.size() == 2, "%zu flows", fake_clock.flows.size());
	for (const FakeClock::Flow &f : fake_clock.flows)
		CHECK(f.ends.src + f.ends.dst == 8 && (f.ends.src == 3 || f.ends.src == 5) && f.ends.comm == 9,
			"%s: a flow from rank %u of the job to %u, of communicator %u", c.func, f.ends.src, f.ends.dst,
			f.ends.comm);
	softexec::node_table.store(nullptr);
}

// NVLSTree in a communicator of 6 + 6 ranks, of 2 nodes with 8 GPUs of the job: the flows within a node are those of
// the GPUs that the members have, and each rank reduces and broadcasts.
void some_ranks_of_nodes()
{
	constexpr int version = 22907;
	constexpr int kRanks = 12, kPerNode = 6, kGPUs = 8;
	softexec_select_version(version);
	fake::World w({ version, kRanks, 1, fake::Transport::kShared, 0, kPerNode, kPerNode });
	fake_clock = {};
	fake_clock.time.on = 1, fake_clock.time.gpus = kGPUs;
	fake_clock.time.nvls_copy = fake_clock.time.nvls_head = { 100, 0.5, 2 };
	ddlemu_node_calls table = calls();
	table.ranks = 2 * kGPUs;
	softexec::node_table.store(&table);
	const size_t elements = 30000;
	std::vector<int> members;
	std::vector<std::vector<float>> in, out;
	std::vector<fake::Launch> launches;
	for (int r = 0; r < kRanks; r++) {
		members.push_back(r / kPerNode * kGPUs + r % kPerNode);
		in.emplace_back(elements, static_cast<float>(r)), out.emplace_back(elements);
		launches.push_back(w.launch(r,
			{ w.collective("AllReduce_Sum_f32_NVLS_TREE_SIMPLE", 1, in.back().data(), out.back().data(),
				elements, 128, 32, 0, 0, false) },
			0));
	}
	std::vector<softexec::Plan> plans(kRanks);
	softexec::Runners runners;
	for (size_t r = 0; r < kRanks; r++) {
		std::string why;
		if (!softexec::read_launch(w.layout(),
			    { launches[r].kernel.c_str(), launches[r].args.data(), launches[r].args.size(),
				    launches[r].grid, 0, 0, 0, members.data(), kRanks, 0 },
			    &plans[r], &why)) {
			CHECK(false, "%s", why.c_str());
			return;
		}
		const softexec::Block &b = plans[r].blocks[0];
		softexec::start_collective(
			plans[r].comm, b.channel, *b.batches[0].func, b.batches[0].colls[0], &runners);
	}
	CHECK(play(runners) > 0, "NVLSTree of some ranks does not end");
	for (const std::vector<float> &o : out)
		CHECK(std::all_of(o.begin(), o.end(), [](float x) { return x == 66; }), "a wrong sum");
	std::map<uint32_t, int> reduces, broadcasts; // by the GPU whose link it is
	for (const FakeClock::Flow &f : fake_clock.flows) {
		const bool are_members = f.ends.src % kGPUs < kPerNode && f.ends.dst % kGPUs < kPerNode;
		const bool local = f.ends.src / kGPUs == f.ends.dst / kGPUs;
		CHECK(are_members && (local || f.ends.kind == DDLEMU_DIRECT_UNICAST),
			"a flow from rank %u to %u, kind %d", f.ends.src, f.ends.dst, f.ends.kind);
		if (f.ends.kind == DDLEMU_DIRECT_REDUCES)
			reduces[f.ends.src]++;
		if (f.ends.kind == DDLEMU_DIRECT_BROADCAST)
			broadcasts[f.ends.dst]++;
	}
	for (int m : members) { // each has flows to and from the heads of its node that are other GPUs
		const auto gpu = static_cast<uint32_t>(m);
		CHECK(reduces[gpu] == kPerNode - 1 && broadcasts[gpu] == kPerNode - 1,
			"rank %d has %d flows to the heads of its node and %d from them", m, reduces[gpu],
			broadcasts[gpu]);
	}
	softexec::node_table.store(nullptr);
}

// What was counted on a real clock.
std::vector<ddlemu_played> played;
struct Received {
	uint64_t message;
	int64_t wanted;
};
std::vector<Received> received;

ddlemu_node_calls real_calls()
{
	fake_clock = {}, played = {}, received = {};
	ddlemu_node_calls c = calls();
	c.played = [](const ddlemu_played *p) { played.push_back(*p); };
	c.direct_received = [](uint64_t, uint64_t message, int64_t wanted) { received.push_back({ message, wanted }); };
	return c;
}

// On a real clock an action begins when the runner looked, not when it has copied, and the time in which it did not
// look is counted.
void counts_actions()
{
	const ddlemu_node_calls table = real_calls();
	softexec::node_table.store(&table);
	const ddlemu_node_cost cost = { 100, 0, 0 };
	softexec::ActionTime t;
	auto at = [](int64_t now) { fake_clock.now = now; };
	auto ends_at = [&](int64_t now, int64_t begun, int64_t unseen) {
		at(begun + 99);
		CHECK(t.runs() && !t.is_over() && t.next() == begun + 100, "an action is over before its time");
		at(now);
		CHECK(t.is_over(), "an action is not over");
		t.end();
		CHECK(!played.empty(), "an action is not counted");
		const ddlemu_played &p = played.back();
		CHECK(p.part == DDLEMU_ACTIONS && p.bytes == 8 && p.begun == begun && p.unseen == unseen &&
				p.due == begun + 100 && p.ended == now,
			"begun %ld, unseen %ld, due %ld, ended %ld", static_cast<long>(p.begun),
			static_cast<long>(p.unseen), static_cast<long>(p.due), static_cast<long>(p.ended));
	};
	at(1000), t.look();
	at(1050), t.begin(&cost, 8); // copying took 50 ns
	ends_at(1107, 1000, 0);
	at(1110), t.look();
	t.begin(&cost, 8);
	ends_at(1210, 1110, 3);
	at(1220), t.look();
	at(1290), t.look();
	t.begin(&cost, 8);
	ends_at(1400, 1290, 70);
	t.look();
	t.begin(nullptr, 8);
	CHECK(t.is_over(), "an action without cost is not over");
	t.end();
	CHECK(played.size() == 3, "%zu actions counted", played.size());
	softexec::node_table.store(nullptr);
}

// A message is counted once, with the time at which its receiver looked for it first.
void counts_messages()
{
	const ddlemu_node_calls table = real_calls();
	softexec::node_table.store(&table);
	uint64_t words[2] = {};
	const ddlemu_node_cost cost = {};
	softexec::Direct sender(reinterpret_cast<char *>(words), {}, &cost);
	softexec::Direct receiver(reinterpret_cast<char *>(words), {}, &cost);
	for (int64_t i = 0; i < 2; i++) {
		const int64_t begun = 10000 * (i + 1);
		fake_clock.now = begun;
		sender.post(50, softexec::ActionTime()); // written at once
		CHECK(!receiver.has_arrived(), "a message has arrived at once");
		fake_clock.now = begun + kLatency + 49;
		CHECK(!receiver.has_arrived(), "a message has arrived too early");
		fake_clock.now = begun + kLatency + 60;
		CHECK(receiver.has_arrived() && receiver.has_arrived(), "a message has not arrived");
		receiver.took();
		CHECK(received.size() == static_cast<size_t>(i + 1) &&
				received.back().message == static_cast<uint64_t>(i) && received.back().wanted == begun,
			"%zu messages counted", received.size());
	}
	softexec::node_table.store(nullptr);
}

} // namespace

void cost_tests()
{
	counts_actions();
	counts_messages();
	some_ranks_of_nodes();
	for (int version : { 22203, 22907 }) {
		// A rank sends, reduces what it gets and sends that, and receives: 3 actions with 2 messages between.
		all_reduce_takes({ softexec::kLL, "AllReduce_Sum_f32_RING_LL", 64, 256, 3, 2 }, version);
		all_reduce_takes({ softexec::kLL128, "AllReduce_Sum_f32_RING_LL128", 960, 2048, 3, 2 }, version);
	}
}

} // namespace test
