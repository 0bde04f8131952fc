// SPDX-License-Identifier: Apache-2.0
#include "reduce.h"

#include <algorithm>
#include <cstring>

#include "exec.h"
#include "reduce_loops.h"

namespace softexec {
namespace {

// Bytes that are processed at a time, so that intermediate results stay in the first-level cache.
constexpr size_t kBlock = 8192;

const Isa &best_isa()
{
	static const Isa best = [] {
		Isa all[4];
		return all[isas(all) - 1];
	}();
	return best;
}

int row_of(Type t)
{
	switch (t) {
	case Type::kI8:
	case Type::kU8:
		return kRow8;
	case Type::kI32:
	case Type::kU32:
		return kRow32;
	case Type::kI64:
	case Type::kU64:
		return kRow64;
	case Type::kF16:
		return kRowF16;
	case Type::kBf16:
		return kRowBf16;
	case Type::kF32:
		return kRowF32;
	case Type::kF64:
		return kRowF64;
	default:
		return -1;
	}
}

bool is_signed_int(Type t) { return t == Type::kI8 || t == Type::kI32 || t == Type::kI64; }

const char *at(const void *p, size_t off) { return static_cast<const char *>(p) + off; }

// Reduces one block of a slice: n elements at byte offset off.
void reduce_block(const Reduction &r, const Slice &s, size_t off, size_t n)
{
	alignas(64) char scratch[kBlock];
	const void *acc = at(s.src[0], off);
	// Intermediate results go to the first destination, unless that is also a source that is still needed.
	void *out = const_cast<char *>(at(s.dst[0], off));
	bool later_source = false;
	for (int i = 1; i < s.nsrc; i++)
		later_source |= s.src[i] == s.dst[0];
	void *temp = later_source ? static_cast<void *>(scratch) : out;
	if (s.pre_op && r.pre) {
		r.pre(s.nsrc == 1 ? out : scratch, acc, n, r.arg);
		acc = s.nsrc == 1 ? out : scratch;
	}
	for (int i = 1; i < s.nsrc; i++) {
		void *to = i == s.nsrc - 1 ? out : temp;
		r.reduce(to, acc, at(s.src[i], off), n, r.arg);
		acc = to;
	}
	if (s.post_op && r.post) {
		r.post(out, acc, n, r.arg);
		acc = out;
	}
	for (int i = 1; i < s.ndst; i++)
		std::memcpy(const_cast<char *>(at(s.dst[i], off)), out, n * r.elt);
}

} // namespace

bool find_reduction(const Layout &l, RedOp op, Type type, uint64_t nccl_arg, Reduction *out)
{
	*out = Reduction();
	out->elt = type_size(type);
	if (op == RedOp::kNone)
		return type == Type::kNone;
	int row = row_of(type);
	if (row < 0)
		return false;
	const Loops &loops = best_isa().rows[row];
	out->arg = nccl_arg;
	out->reduce = loops.sum;
	switch (op) {
	case RedOp::kSum:
		out->multicast = l.multicast_sums_in_f32 ? loops.sum_many : nullptr;
		return true;
	case RedOp::kProd:
		out->reduce = loops.prod;
		return true;
	case RedOp::kMinMax:
		out->reduce = loops.min_max;
		return true;
	case RedOp::kPreMulSum:
		out->pre = loops.mul;
		return true;
	default:
		out->post = loops.divide;
		if (!l.post_div_has_sign)
			out->arg = nccl_arg * 2 + is_signed_int(type);
		return out->post != nullptr && (out->arg >> 1) != 0;
	}
}

uint64_t load_arg(RedOp op, Type type, const void *ptr)
{
	uint64_t v = 0;
	if (op == RedOp::kSumPostDiv) {
		std::memcpy(&v, ptr, sizeof v);
	} else if (op == RedOp::kMinMax || op == RedOp::kPreMulSum) {
		std::memcpy(&v, ptr, type_size(type));
	}
	return v;
}

bool is_arithmetic(const Reduction &r, const Slice &s)
{
	return s.nsrc > 1 || (s.pre_op && r.pre) || (s.post_op && r.post);
}

void reduce_copy(const Reduction &r, const Slice &s)
{
	size_t bytes = s.n * r.elt;
	if (s.nsrc == 0 || s.ndst == 0 || bytes == 0)
		return;
	bool arithmetic = is_arithmetic(r, s);
	if (!arithmetic && s.ndst == 1) {
		if (s.dst[0] != s.src[0])
			std::memcpy(s.dst[0], s.src[0], bytes);
		return;
	}
	for (size_t off = 0; off < bytes; off += kBlock) {
		size_t m = std::min(kBlock, bytes - off);
		if (arithmetic) {
			reduce_block(r, s, off, m / r.elt);
			continue;
		}
		for (int i = 0; i < s.ndst; i++) {
			if (s.dst[i] != s.src[0])
				std::memcpy(const_cast<char *>(at(s.dst[i], off)), at(s.src[0], off), m);
		}
	}
}

void reduce_members(const Reduction &r, char *dst, const char *const *src, size_t nsrc, size_t n)
{
	if (nsrc == 1) {
		std::memcpy(dst, src[0], n * r.elt);
		return;
	}
	if (r.multicast) {
		r.multicast(dst, src, nsrc, n);
		return;
	}
	r.reduce(dst, src[0], src[1], n, r.arg);
	for (size_t i = 2; i < nsrc; i++)
		r.reduce(dst, dst, src[i], n, r.arg);
}

const char *reduction_isa() { return best_isa().name; }

} // namespace softexec

extern "C" size_t softexec_type_size(int nccl_type) { return softexec::type_size(softexec::type_of(nccl_type)); }

extern "C" int softexec_scale(
	int nccl_type, void *dst, const void *src, size_t count, uint64_t factor, int factor_is_pointer)
{
	using namespace softexec;
	Reduction r;
	if (!find_reduction(Layout(), RedOp::kPreMulSum, type_of(nccl_type), factor, &r))
		return -1;
	if (factor_is_pointer)
		r.arg = load_arg(RedOp::kPreMulSum, type_of(nccl_type), reinterpret_cast<const void *>(factor));
	reduce_copy(r, { { src }, { dst }, 1, 1, true, false, count });
	return 0;
}
