// SPDX-License-Identifier: Apache-2.0
//
// The numbers of NCCL's device functions. NCCL's build (src/device/generate.py) lists the functions as tuples
// (collective, operator, type, algorithm, protocol), sorts them and numbers them. This file does the same, instead of a
// table of several hundred rows per version.
#include "funcs.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <set>
#include <tuple>

namespace softexec {
namespace {

using Row = std::array<const char *, 5>; // collective, operator, type, algorithm, protocol; "" where there is none

struct RowLess {
	bool operator()(const Row &a, const Row &b) const
	{
		return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
			[](const char *x, const char *y) { return std::strcmp(x, y) < 0; });
	}
};

const char *const kOps[] = { "Sum", "Prod", "MinMax", "PreMulSum", "SumPostDiv" };
const char *const kTypes[] = { "i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "bf16", "f8e4m3",
	"f8e5m2" };
const char *const kAlgos[] = { "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT" };
const char *const kProtoNames[] = { "LL", "LL128", "SIMPLE" };
const char *const kColls[] = { "Broadcast", "Reduce", "AllGather", "AllGatherV", "ReduceScatter", "AllReduce",
	"SendRecv" };

bool is(const char *a, const char *b) { return std::strcmp(a, b) == 0; }
bool is_int(const char *type) { return type[0] == 'i' || type[0] == 'u'; }

// True if the hardware of NVLink SHARP has a reduction.
bool nvls_has(const char *op, const char *type)
{
	if (is(type, "f32") || is(type, "f64"))
		return is(op, "Sum");
	bool wide = is_int(type) && !is(type, "i8") && !is(type, "u8");
	return (wide || is(type, "f16") || is(type, "bf16")) && (is(op, "Sum") || is(op, "MinMax"));
}

// True if NCCL has such a function.
bool exists(const Row &r)
{
	const char *op = r[1], *type = r[2], *algo = r[3];
	if (is(r[0], "SendRecv"))
		return true;
	if (!is(r[4], "SIMPLE") && !is(algo, "RING") && !is(algo, "TREE"))
		return false;
	if (*op == 0)
		return true;
	if (is(op, "SumPostDiv") && !is_int(type))
		return false;
	return std::strncmp(algo, "NVLS", 4) != 0 || nvls_has(op, type);
}

// Returns the function whose code is used: signed integers use the code of unsigned ones if two's complement gives the
// same.
Row primary(const Layout &l, Row r)
{
	if (*r[1] == 0 || r[2][0] != 'i')
		return r;
	bool same = is(r[1], "Sum") || is(r[1], "Prod") || is(r[1], "PreMulSum");
	same |= is(r[1], "SumPostDiv") && l.post_div_has_sign;
	same |= is(r[1], "MinMax") && std::strncmp(r[3], "NVLS", 4) != 0;
	if (same)
		r[2] = is(r[2], "i8") ? "u8" : is(r[2], "i32") ? "u32" : "u64";
	return r;
}

std::vector<const char *> algorithms(const Layout &l, const char *coll)
{
	if (is(coll, "AllReduce"))
		return { kAlgos, kAlgos + 6 };
	std::vector<const char *> a = { "RING" };
	if (is(coll, "AllGather") || is(coll, "ReduceScatter")) {
		a.insert(a.end(), { "COLLNET_DIRECT", "NVLS" });
		if (l.has_pat)
			a.push_back("PAT");
	}
	return a;
}

template <typename E, size_t N>
E index_of(const char *const (&names)[N], const char *s, int shift)
{
	for (size_t i = 0; i < N; i++) {
		if (is(names[i], s))
			return static_cast<E>(static_cast<int>(i) + shift);
	}
	return static_cast<E>(0);
}

std::string join(const Row &r)
{
	std::string s = r[0];
	for (size_t i = 1; i < r.size(); i++) {
		if (*r[i])
			s += std::string("_") + r[i];
	}
	return s;
}

// Returns the function in the name of the kernel: NCCL builds one kernel per collective and type, which calls the
// others.
Row representative(const Layout &l, const Row &r)
{
	if (is(r[0], "SendRecv"))
		return r;
	if (*r[1] == 0)
		return { r[0], "", "", "RING", "LL" };
	return primary(l, { r[0], "Sum", r[2], is(r[3], "TREE") ? "TREE" : "RING", "LL" });
}

Func to_func(const Layout &l, const Row &r)
{
	Func f;
	f.coll = index_of<Coll>(kColls, r[0], 0);
	f.op = index_of<RedOp>(kOps, r[1], 1);
	f.type = index_of<Type>(kTypes, r[2], 1);
	f.algo = index_of<Algo>(kAlgos, r[3], 1);
	f.proto = *r[4] ? index_of<Proto>(kProtoNames, r[4], 0) : kSimple;
	f.name = join(r);
	f.kernel = join(representative(l, r));
	return f;
}

std::vector<Func> enumerate(const Layout &l)
{
	std::set<Row, RowLess> rows = { { "SendRecv", "", "", "", "" } };
	auto add = [&](const Row &r) {
		if (exists(r))
			rows.insert(primary(l, r));
	};
	for (const char *coll : kColls) {
		if (is(coll, "SendRecv") || (is(coll, "AllGatherV") && !l.has_gather_v))
			continue;
		bool reduces = is(coll, "AllReduce") || is(coll, "Reduce") || is(coll, "ReduceScatter");
		for (const char *algo : algorithms(l, coll)) {
			for (const char *proto : kProtoNames) {
				if (!reduces)
					add({ coll, "", "", algo, proto });
				for (size_t t = 0; reduces && t < (l.has_fp8 ? 12u : 10u); t++) {
					for (const char *op : kOps)
						add({ coll, op, kTypes[t], algo, proto });
				}
			}
		}
	}
	std::vector<Func> out;
	for (const Row &r : rows)
		out.push_back(to_func(l, r));
	return out;
}

} // namespace

size_t type_size(Type t)
{
	switch (t) {
	case Type::kF16:
	case Type::kBf16:
		return 2;
	case Type::kI32:
	case Type::kU32:
	case Type::kF32:
		return 4;
	case Type::kI64:
	case Type::kU64:
	case Type::kF64:
		return 8;
	default:
		return 1;
	}
}

const std::vector<Func> &functions(const Layout &l)
{
	// Never destroyed: a launch may still run while the process exits.
	static std::mutex *mu = new std::mutex;
	static auto *cache = new std::map<int, std::vector<Func>>;
	std::lock_guard<std::mutex> lock(*mu);
	std::vector<Func> &list = (*cache)[l.version];
	if (list.empty())
		list = enumerate(l);
	return list;
}

} // namespace softexec
