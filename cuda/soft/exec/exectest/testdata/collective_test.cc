// SPDX-License-Identifier: Apache-2.0
//
// Every collective, algorithm, protocol and number of ranks, compared with the definition of the collective. The values
// are small, so that the results are exact.
#include <algorithm>
#include <cstdlib>

#include "fake_world.h"

namespace test {
namespace {

using fake::Transport;
using fake::World;
using softexec::Coll;

struct Case {
	Coll coll;
	const char *name; // in the function's name
	const char *algo;
	softexec::Proto proto;
	const char *op; // "" for collectives that only copy
	Type type; // of the elements
	const char *type_name; // in the function's name
};

const char *const kProtoName[] = { "LL", "LL128", "SIMPLE" };

std::string func_name(const Case &c)
{
	std::string s = c.name;
	if (*c.op)
		s += std::string("_") + c.op + "_" + c.type_name;
	return s + "_" + c.algo + "_" + kProtoName[c.proto];
}

double input(int rank, size_t i) { return static_cast<double>((static_cast<size_t>(rank) * 3 + i * 7 + i / 5) % 4); }

// Returns the correct element i of a rank's output.
double expected(const Case &c, int nranks, int rank, int root, size_t count, size_t i)
{
	size_t n = static_cast<size_t>(nranks);
	switch (c.coll) {
	case Coll::kBroadcast:
		return input(root, i);
	case Coll::kAllGather:
		return input(static_cast<int>(i / count), i % count);
	case Coll::kReduceScatter:
		i += static_cast<size_t>(rank) * count;
		break;
	default:
		break;
	}
	double sum = 0, prod = 1, top = 0;
	for (size_t r = 0; r < n; r++) {
		double v = input(static_cast<int>(r), i);
		sum += v, prod *= v, top = std::max(top, v);
	}
	std::string op = c.op;
	if (op == "PreMulSum")
		return sum * 2;
	if (op == "SumPostDiv")
		return std::floor(sum / nranks);
	return op == "Prod" ? prod : op == "MinMax" ? top : sum;
}

uint64_t op_arg(const Case &c, const World &w)
{
	std::string op = c.op;
	bool is_float = c.type >= Type::kF16;
	if (op == "MinMax")
		return is_float ? 1 : ~uint64_t(0) >> (64 - 8 * softexec::type_size(c.type)); // max
	if (op == "SumPostDiv") {
		uint64_t n = static_cast<uint64_t>(w.options().nranks);
		return w.layout().post_div_has_sign ? n * 2 : n;
	}
	uint64_t arg = 0;
	if (op == "PreMulSum")
		set(&arg, 0, c.type, 2);
	return arg;
}

struct Shape {
	size_t count; // elements per rank
	size_t grains; // of a chunk
	bool in_place;
	int storage;
	bool arg_by_pointer;
};

bool is_nvls(const Case &c) { return std::string(c.algo).compare(0, 4, "NVLS") == 0; }

// Sets the elements of a grain, and the largest number of grains of a chunk.
void chunk_limits(const World &w, const Case &c, size_t *grain_elts, size_t *max_grains)
{
	size_t elt = softexec::type_size(c.type), step = w.buff_size(c.proto) / 8;
	size_t grain = c.proto == softexec::kLL ? 16 : c.proto == softexec::kLL128 ? 1920 : 512;
	bool four_steps = std::string(c.algo) == "RING" &&
		(c.coll == Coll::kAllReduce || c.coll == Coll::kAllGather || c.coll == Coll::kReduceScatter);
	size_t data = c.proto == softexec::kLL ? step / 2
		: c.proto == softexec::kLL128  ? step / 16 * 15
					       : step * (four_steps ? 4 : 1);
	if (is_nvls(c))
		data = std::string(c.algo) == "NVLS" ? World::kNvlsStep
						     : step; // a tree's steps go through the network too
	*grain_elts = grain / elt;
	*max_grains = data / grain;
}

void mark_connections(World &w, const Case &c)
{
	std::string algo = c.algo;
	if (algo == "TREE")
		return w.mark_tree(c.proto);
	if (algo == "PAT")
		return w.mark_pat(c.coll == Coll::kAllGather);
	if (algo == "NVLS")
		return; // no proxy
	if (algo == "NVLS_TREE")
		return w.mark_nvls_tree();
	bool four_steps = c.proto == softexec::kSimple &&
		(c.coll == Coll::kAllReduce || c.coll == Coll::kAllGather || c.coll == Coll::kReduceScatter);
	w.mark_ring(c.proto, four_steps ? 4 : 1, four_steps ? 2 : 1);
}

struct Ranks {
	int count, rank, root;
};

// Compares the n elements of a rank's output with the definition.
void check_output(const Case &c, const std::string &what, Ranks r, size_t count, size_t n, const char *result)
{
	size_t wrong = 0, first = 0;
	for (size_t k = n; k-- > 0;) {
		if (value(result, k, c.type) != expected(c, r.count, r.rank, r.root, count, k))
			wrong++, first = k;
	}
	CHECK(wrong == 0, "%s: %zu of %zu wrong on rank %d, first at %zu: %g, want %g", what.c_str(), wrong, n, r.rank,
		first, value(result, first, c.type), expected(c, r.count, r.rank, r.root, count, first));
}

void run_case(World &w, const Case &c, const Shape &s)
{
	int n = w.options().nranks, root = (n - 1) / 2 + (s.count & 1 ? 0 : n / 2) % n;
	size_t elt = softexec::type_size(c.type), all = static_cast<size_t>(n), grain, max_grains;
	chunk_limits(w, c, &grain, &max_grains);
	bool moves_bytes = *c.op == 0;
	size_t in_elts = c.coll == Coll::kReduceScatter ? s.count * all : s.count,
	       out_elts = c.coll == Coll::kAllGather ? s.count * all : s.count;
	std::string what = func_name(c) + " v" + std::to_string(w.options().version) + " ranks " + std::to_string(n) +
		" count " + std::to_string(s.count) + (s.in_place ? " in place" : "") +
		(w.options().transport == Transport::kNet ? " net" : " shared");
	uint64_t arg = op_arg(c, w);
	std::vector<std::vector<char>> in(all), out(all);
	std::vector<fake::Launch> launches;
	mark_connections(w, c);
	for (int r = 0; r < n; r++) {
		std::vector<char> &i = in[static_cast<size_t>(r)], &o = out[static_cast<size_t>(r)];
		o.assign(std::max(in_elts, out_elts) * elt + 8, 0x6b);
		i.assign(in_elts * elt + 8, 0x6b);
		// In place: the input is a part of the output, or the output a part of the input.
		char *from = i.data(), *to = o.data();
		if (s.in_place) {
			from = c.coll == Coll::kAllGather ? to + static_cast<size_t>(r) * s.count * elt : to;
			to += c.coll == Coll::kReduceScatter ? static_cast<size_t>(r) * s.count * elt : 0;
		}
		for (size_t k = 0; k < in_elts; k++)
			set(from, k, c.type, input(r, k));
		size_t per = moves_bytes ? elt : 1;
		fake::Work work = w.collective(func_name(c), w.options().channels, from, to, s.count * per, grain * per,
			std::min(s.grains, max_grains), root, s.arg_by_pointer ? reinterpret_cast<uint64_t>(&arg) : arg,
			s.arg_by_pointer);
		launches.push_back(w.launch(r, { work }, s.storage));
	}
	for (int result : w.run(launches, what))
		CHECK(result == 0, "%s returns %d", what.c_str(), result);
	w.check_steps(what);
	for (int r = 0; r < n; r++) {
		if (c.coll == Coll::kReduce && r != root)
			continue;
		const std::vector<char> &o = out[static_cast<size_t>(r)];
		const char *result = o.data() +
			(s.in_place && c.coll == Coll::kReduceScatter ? static_cast<size_t>(r) * s.count * elt : 0);
		check_output(c, what, { n, r, root }, s.count, out_elts, result);
		for (size_t k = std::max(in_elts, out_elts) * elt; k < o.size(); k++)
			CHECK(o[k] == 0x6b, "%s wrote beyond the end", what.c_str());
	}
}

std::vector<Case> cases(softexec::Proto p, bool pat)
{
	if (pat) {
		return {
			{ Coll::kReduceScatter, "ReduceScatter", "PAT", p, "Sum", Type::kF32, "f32" },
			{ Coll::kReduceScatter, "ReduceScatter", "PAT", p, "MinMax", Type::kF16, "f16" },
			{ Coll::kReduceScatter, "ReduceScatter", "PAT", p, "Prod", Type::kU8, "u8" },
			{ Coll::kAllGather, "AllGather", "PAT", p, "", Type::kF64, "" },
			{ Coll::kAllGather, "AllGather", "PAT", p, "", Type::kI8, "" },
		};
	}
	return {
		{ Coll::kAllReduce, "AllReduce", "RING", p, "Sum", Type::kF32, "f32" },
		{ Coll::kAllReduce, "AllReduce", "RING", p, "PreMulSum", Type::kF16, "f16" },
		{ Coll::kAllReduce, "AllReduce", "RING", p, "SumPostDiv", Type::kU8, "u8" },
		{ Coll::kAllReduce, "AllReduce", "TREE", p, "Sum", Type::kBf16, "bf16" },
		{ Coll::kAllReduce, "AllReduce", "TREE", p, "PreMulSum", Type::kF64, "f64" },
		{ Coll::kAllReduce, "AllReduce", "TREE", p, "SumPostDiv", Type::kU32, "u32" },
		{ Coll::kAllReduce, "AllReduce", "TREE", p, "MinMax", Type::kI32, "u32" },
		{ Coll::kReduceScatter, "ReduceScatter", "RING", p, "Sum", Type::kI64, "u64" },
		{ Coll::kReduceScatter, "ReduceScatter", "RING", p, "Prod", Type::kF32, "f32" },
		{ Coll::kReduce, "Reduce", "RING", p, "Sum", Type::kF16, "f16" },
		{ Coll::kReduce, "Reduce", "RING", p, "SumPostDiv", Type::kU64, "u64" },
		{ Coll::kAllGather, "AllGather", "RING", p, "", Type::kF32, "" },
		{ Coll::kAllGather, "AllGather", "RING", p, "", Type::kI8, "" },
		{ Coll::kBroadcast, "Broadcast", "RING", p, "", Type::kF64, "" },
		{ Coll::kBroadcast, "Broadcast", "RING", p, "", Type::kU8, "" },
	};
}

std::vector<Case> nvls_cases(bool tree)
{
	const char *algo = tree ? "NVLS_TREE" : "NVLS";
	const softexec::Proto p = softexec::kSimple;
	std::vector<Case> list = {
		{ Coll::kAllReduce, "AllReduce", algo, p, "Sum", Type::kF32, "f32" },
		{ Coll::kAllReduce, "AllReduce", algo, p, "Sum", Type::kF64, "f64" },
		{ Coll::kAllReduce, "AllReduce", algo, p, "Sum", Type::kF16, "f16" },
		{ Coll::kAllReduce, "AllReduce", algo, p, "MinMax", Type::kBf16, "bf16" },
		{ Coll::kAllReduce, "AllReduce", algo, p, "Sum", Type::kU64, "u64" },
		{ Coll::kAllReduce, "AllReduce", algo, p, "MinMax", Type::kU32, "u32" },
	};
	if (!tree) {
		list.push_back({ Coll::kReduceScatter, "ReduceScatter", algo, p, "Sum", Type::kBf16, "bf16" });
		list.push_back({ Coll::kReduceScatter, "ReduceScatter", algo, p, "MinMax", Type::kU64, "u64" });
		list.push_back({ Coll::kAllGather, "AllGather", algo, p, "", Type::kF32, "" });
		list.push_back({ Coll::kAllGather, "AllGather", algo, p, "", Type::kI8, "" });
	}
	return list;
}

void run_nvls(const fake::Options &o, Random &random)
{
	World w(o);
	for (const Case &c : nvls_cases(o.nranks > o.gpus_per_node)) {
		for (size_t count : { size_t(1), size_t(1000), size_t(20000 + random() % 30000) }) {
			// NCCL's chunks have at least 16 KiB.
			Shape s = { count, 32 + random() % 33, random() % 2 == 0, static_cast<int>(random() % 2),
				random() % 2 == 0 };
			run_case(w, c, s);
			if (failures > 10)
				return;
		}
	}
}

// What the heads of two nodes send: the last one has less if the data end in its part.
void nvls_message_sizes()
{
	softexec_select_version(22907);
	World w({ 22907, 4, 1, Transport::kNet, 0, 2, 2 });
	run_case(w, nvls_cases(true).front(), { 100, 8, false, 0, false });
	CHECK(w.sizes(2, 0) == std::vector<size_t>({ 208 }) && w.sizes(3, 1) == std::vector<size_t>({ 192 }),
		"the heads of NVLSTree send messages of other sizes than %d and %d bytes", 208, 192);
}

// One node, and trees of nodes, also with ranks that are no heads.
void nvls_tests(Random &random)
{
	const struct {
		int nodes, gpus, heads;
	} shapes[] = { { 1, 2, 2 }, { 1, 5, 5 }, { 2, 3, 1 }, { 4, 2, 2 } };
	for (int version : { 22203, 22907 }) {
		softexec_select_version(version);
		for (const auto &s : shapes) {
			for (Transport transport : { Transport::kNet, Transport::kShared })
				run_nvls({ version, s.nodes * s.gpus, 1 + s.gpus % 3, transport, 0, s.gpus, s.heads },
					random);
		}
	}
}

void run_cases(World &w, const std::vector<Case> &list, Random &random)
{
	for (const Case &c : list) {
		for (size_t count : { size_t(1), size_t(13), size_t(1000), size_t(2000 + random() % 9000) }) {
			Shape s = { count, 1 + random() % 8, random() % 2 == 0, static_cast<int>(random() % 2),
				random() % 2 == 0 };
			run_case(w, c, s);
			if (failures > 10)
				return;
		}
	}
}

void run_world(const fake::Options &o, const std::vector<softexec::Proto> &protos, Random &random)
{
	World w(o);
	for (softexec::Proto p : protos)
		run_cases(w, cases(p, false), random);
	if (o.version == 22203)
		CHECK(w.consumed[0] > World::kFifoBytes, "the works in the FIFO were not marked as read: %u",
			w.consumed[0]);
}

// The sizes of the messages in a ring of two ranks. A step of Simple has 4096 bytes here, a slice has two steps.
void message_sizes()
{
	const struct {
		softexec::Proto proto;
		size_t count; // of f32; each rank sends half of it twice
		size_t grains; // of a chunk
		std::vector<size_t> want;
	} cases[] = {
		{ softexec::kSimple, 80, 32,
			{ 160, 0, 160, 0 } }, // a slice has at least 64 elements, a 32nd of the largest
		{ softexec::kSimple, 200, 32, { 256, 144, 256, 144 } },
		{ softexec::kSimple, 2000, 32, { 2048, 1952, 2048, 1952 } }, // else a multiple of 16 elements
		{ softexec::kLL, 80, 32, { 320, 320 } },
		{ softexec::kLL, 80, 8, { 256, 256, 64, 64 } }, // chunks of 8 grains of 4 elements
		{ softexec::kSimple, 1100, 4, { 1024, 1024, 1024, 1024, 144, 0, 160, 0 } }, // of 4 grains of 128
		{ softexec::kLL, 2, 32, { 0, 16 } }, // chunks are multiples of 16 bytes, so the first one has it all
		{ softexec::kLL128, 80, 32, { 2048, 2048 } },
		{ softexec::kLL128, 970, 32, { 2048, 2048, 2048, 2048 } }, // 480 elements fit into a step
	};
	softexec_select_version(22203);
	World w({ 22203, 2, 1, Transport::kNet, 0 });
	for (const auto &c : cases) {
		Case ring = { Coll::kAllReduce, "AllReduce", "RING", c.proto, "Sum", Type::kF32, "f32" };
		run_case(w, ring, { c.count, c.grains, false, 0, false });
		std::vector<size_t> got = w.sizes(0, 1);
		std::string text;
		for (size_t n : got)
			text += std::to_string(n) + " ";
		CHECK(got == c.want, "%s of %zu: messages of %s bytes", kProtoName[c.proto], c.count, text.c_str());
	}
	// The last two of these steps are sent whole, because LL overwrites all old flags.
	World late({ 22203, 2, 1, Transport::kNet, 0x7ffffff6 });
	run_case(late, { Coll::kAllReduce, "AllReduce", "RING", softexec::kLL, "Sum", Type::kF32, "f32" },
		{ 80, 8, false, 0, false });
	CHECK(late.sizes(0, 1) == std::vector<size_t>({ 256, 256, 1024, 1024 }),
		"LL's cleaning steps are not sent whole");
}

} // namespace

void collective_tests()
{
	message_sizes();
	Random random = { 0x9e3779b97f4a7c15 };
	for (int version : { 22203, 22907 }) {
		softexec_select_version(version);
		for (int ranks : { 2, 3, 4 }) {
			for (Transport transport : { Transport::kNet, Transport::kShared }) {
				setenv("DDLEMU_SOFT_THREADS", ranks == 3 ? "2" : "1", 1);
				run_world({ version, ranks, 1 + (ranks + version) % 3, transport, 0 },
					{ softexec::kSimple, softexec::kLL, softexec::kLL128 }, random);
			}
		}
	}
	unsetenv("DDLEMU_SOFT_THREADS");
	// With 16 ranks PAT has several incomplete steps in a connection.
	for (int ranks : { 2, 3, 4, 5, 8, 16 }) {
		for (Transport transport : { Transport::kNet, Transport::kShared }) {
			World w({ 22907, ranks, 1 + ranks % 2, transport, 0 });
			run_cases(w, cases(softexec::kSimple, true), random);
		}
	}
	nvls_message_sizes();
	nvls_tests(random);
	// LL's cleaning steps: from step 0x7ffffff8 on, eight whole buffers are written.
	softexec_select_version(22203);
	run_world({ 22203, 2, 1, Transport::kNet, 0x7ffffff0 }, { softexec::kLL }, random);
	run_world({ 22203, 2, 1, Transport::kShared, 0x7ffffff0 }, { softexec::kLL }, random);
}

} // namespace test
