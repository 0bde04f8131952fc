// SPDX-License-Identifier: Apache-2.0
//
// Every operator on every type and instruction set, compared with scalar arithmetic in double or in integers. reduce.h
// has the rules of rounding.
#include "reduce.h"

#include <vector>

#include "reduce_loops.h"
#include "test_util.h"

namespace test {
namespace {

constexpr Type kFloats[] = { Type::kF16, Type::kBf16, Type::kF32, Type::kF64 };
const softexec::LoopRow kFloatRows[] = { softexec::kRowF16, softexec::kRowBf16, softexec::kRowF32, softexec::kRowF64 };

bool is_nan_or_same(const void *got, const void *want, Type t)
{
	double g = value(got, 0, t), w = value(want, 0, t);
	return std::isnan(w) ? std::isnan(g) : std::memcmp(got, want, softexec::type_size(t)) == 0;
}

// Writes the correct result to out. op: 0 sum, 1 prod, 2 min, 3 max. For the 16-bit types, double holds a sum or
// product of two elements exactly, or with so many bits that rounding it again gives the same.
void scalar(Type t, int op, const void *a, const void *b, void *out)
{
	double x = value(a, 0, t), y = value(b, 0, t);
	if (op >= 2) {
		bool want_min = op == 2;
		double r = std::isnan(x)      ? y
			: std::isnan(y)       ? x
			: x == y              ? (std::signbit(x) == want_min ? x : y)
			: (x < y) == want_min ? x
					      : y;
		return set(out, 0, t, r);
	}
	if (t == Type::kF32) {
		float f = static_cast<float>(x), g = static_cast<float>(y);
		return set(out, 0, t, op == 0 ? f + g : f * g);
	}
	set(out, 0, t, op == 0 ? x + y : x * y);
}

// Fills v with random bits and some special values.
void fill(std::vector<char> *v, Type t, Random &random)
{
	const double special[] = { 0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 6e-8, -6e-8, 65504.0, 2049.0 };
	size_t elt = softexec::type_size(t);
	for (size_t i = 0; i < v->size() / elt; i++) {
		uint64_t r = random();
		if (r % 4 == 0) {
			set(v->data(), i, t, special[r / 4 % 11]);
		} else {
			uint64_t bits = random();
			std::memcpy(v->data() + i * elt, &bits, elt);
		}
	}
}

void float_loops(const softexec::Isa &isa, Random &random)
{
	const char *names[] = { "sum", "prod", "min", "max" };
	for (size_t k = 0; k < 4; k++) {
		Type t = kFloats[k];
		const softexec::Loops &loops = isa.rows[kFloatRows[k]];
		size_t elt = softexec::type_size(t);
		for (size_t n : { 1, 2, 7, 8, 31, 512, 513, 1500 }) {
			std::vector<char> a(n * elt), b(n * elt), got(n * elt), want(n * elt);
			fill(&a, t, random), fill(&b, t, random);
			for (int op = 0; op < 4; op++) {
				softexec::BinaryLoop loop = op == 0 ? loops.sum : op == 1 ? loops.prod : loops.min_max;
				loop(got.data(), a.data(), b.data(), n, op == 3);
				for (size_t i = 0; i < n; i++) {
					scalar(t, op, &a[i * elt], &b[i * elt], &want[i * elt]);
					CHECK(is_nan_or_same(&got[i * elt], &want[i * elt], t),
						"%s %s type %d of %g and %g: %g, want %g", isa.name, names[op],
						static_cast<int>(t), value(a.data(), i, t), value(b.data(), i, t),
						value(got.data(), i, t), value(want.data(), i, t));
				}
				// In place, both ways.
				std::vector<char> left = a, right = b;
				loop(left.data(), left.data(), b.data(), n, op == 3);
				loop(right.data(), a.data(), right.data(), n, op == 3);
				CHECK(std::memcmp(left.data(), got.data(), n * elt) == 0 &&
						std::memcmp(right.data(), got.data(), n * elt) == 0,
					"%s %s in place", isa.name, names[op]);
			}
			uint64_t by = 0;
			set(&by, 0, t, 0.3330078125); // exact in all types but bf16, where it rounds
			loops.mul(got.data(), a.data(), n, by);
			for (size_t i = 0; i < n; i++) {
				scalar(t, 1, &a[i * elt], &by, &want[i * elt]);
				CHECK(is_nan_or_same(&got[i * elt], &want[i * elt], t), "%s mul type %d of %g",
					isa.name, static_cast<int>(t), value(a.data(), i, t));
			}
		}
	}
}

template <typename U, typename S>
void integer_loops(const softexec::Isa &isa, softexec::LoopRow row, Random &random)
{
	const softexec::Loops &loops = isa.rows[row];
	constexpr size_t n = 333;
	std::vector<U> a(n), b(n), got(n);
	for (size_t i = 0; i < n; i++)
		a[i] = static_cast<U>(random()), b[i] = static_cast<U>(random() >> i % 64);
	auto check = [&](const char *name, auto f) {
		for (size_t i = 0; i < n; i++) {
			U want = static_cast<U>(f(a[i], b[i]));
			CHECK(got[i] == want, "%s %s %zu bits of %lu and %lu: %lu, want %lu", isa.name, name,
				sizeof(U) * 8, static_cast<unsigned long>(a[i]), static_cast<unsigned long>(b[i]),
				static_cast<unsigned long>(got[i]), static_cast<unsigned long>(want));
		}
	};
	auto run = [&](softexec::BinaryLoop loop, uint64_t arg) { loop(got.data(), a.data(), b.data(), n, arg); };
	run(loops.sum, 0), check("sum", [](U x, U y) { return x + y; });
	run(loops.prod, 0), check("prod", [](U x, U y) { return uint64_t(x) * y; });
	// NCCL's host code sets the argument: the sign bit for signed types, all other bits for max.
	constexpr uint64_t sign = uint64_t(1) << (sizeof(U) * 8 - 1), ones = ~uint64_t(0) >> (64 - sizeof(U) * 8);
	run(loops.min_max, 0), check("umin", [](U x, U y) { return std::min(x, y); });
	run(loops.min_max, ones), check("umax", [](U x, U y) { return std::max(x, y); });
	run(loops.min_max, sign),
		check("smin", [](U x, U y) { return std::min(static_cast<S>(x), static_cast<S>(y)); });
	run(loops.min_max, ones ^ sign),
		check("smax", [](U x, U y) { return std::max(static_cast<S>(x), static_cast<S>(y)); });
	loops.mul(got.data(), a.data(), n, 77), check("mul", [](U x, U) { return uint64_t(x) * 77; });
	for (int by : { 1, 2, 3, 7, 64, 1000 }) {
		loops.divide(got.data(), a.data(), n, static_cast<uint64_t>(by) * 2);
		check("udiv", [&](U x, U) { return uint64_t(x) / static_cast<uint64_t>(by); });
		loops.divide(got.data(), a.data(), n, static_cast<uint64_t>(by) * 2 + 1);
		check("sdiv", [&](U x, U) { return int64_t(static_cast<S>(x)) / by; });
	}
}

// All 2^16 values of a 16-bit type: multiplied by one they stay the same, and products and sums are rounded correctly.
void half_rounding(const softexec::Isa &isa)
{
	// Bits of a 16-bit float: zero, subnormal, normal, the largest, infinity, NaN, with both signs.
	constexpr uint16_t kFactors[] = { 0x0000, 0x0001, 0x03ff, 0x0400, 0x1234, 0x3555, 0x3800, 0x3c00, 0x3c01,
		0x4321, 0x7bff, 0x7c00, 0x7e00, 0x8001, 0xb800, 0xc2ab, 0xfbff, 0x3f80, 0x3eab, 0x0080, 0x7f7f };
	for (auto [row, t] : { std::pair(softexec::kRowF16, Type::kF16), std::pair(softexec::kRowBf16, Type::kBf16) }) {
		std::vector<uint16_t> all(65536), zero(65536), got(65536);
		for (size_t i = 0; i < all.size(); i++)
			all[i] = static_cast<uint16_t>(i);
		uint64_t one = 0;
		set(&one, 0, t, 1);
		isa.rows[row].mul(got.data(), all.data(), all.size(), one);
		size_t wrong = 0;
		for (size_t i = 0; i < all.size(); i++)
			wrong += !is_nan_or_same(&got[i], &all[i], t);
		CHECK(wrong == 0, "%s type %d: %zu of 65536 values change when multiplied by one", isa.name,
			static_cast<int>(t), wrong);
		for (uint64_t factor : kFactors) {
			isa.rows[row].mul(got.data(), all.data(), all.size(), factor);
			for (size_t i = wrong = 0; i < all.size(); i++) {
				uint64_t want = 0;
				scalar(t, 1, &all[i], &factor, &want);
				wrong += !is_nan_or_same(&got[i], &want, t);
			}
			CHECK(wrong == 0, "%s type %d: %zu of 65536 products with %#lx are rounded wrongly", isa.name,
				static_cast<int>(t), wrong, factor);
		}
		for (size_t i = 0; i < all.size(); i++)
			zero[i] = static_cast<uint16_t>(i * 40503);
		isa.rows[row].sum(got.data(), all.data(), zero.data(), all.size(), 0);
		for (size_t i = wrong = 0; i < all.size(); i++) {
			uint64_t want = 0;
			scalar(t, 0, &all[i], &zero[i], &want);
			wrong += !is_nan_or_same(&got[i], &want, t);
		}
		CHECK(wrong == 0, "%s type %d: %zu of 65536 sums are rounded wrongly", isa.name, static_cast<int>(t),
			wrong);
	}
}

// Slices: several sources and destinations, preOp and postOp, in place, longer than a block.
void slices()
{
	softexec::Reduction r;
	const softexec::Layout &l = *softexec::layout_for(22203);
	constexpr size_t n = 5000;
	std::vector<int32_t> a(n), b(n), c(n), d(n), out(n), copy(n);
	for (size_t i = 0; i < n; i++)
		a[i] = static_cast<int>(i) - 100, b[i] = static_cast<int>(3 * i), c[i] = -static_cast<int>(i) / 2,
		d[i] = 7;
	CHECK(softexec::find_reduction(l, softexec::RedOp::kPreMulSum, Type::kU32, 5, &r), "PreMulSum");
	softexec::Slice s = { { a.data(), b.data(), c.data(), d.data() }, { out.data(), copy.data() }, 4, 2, true,
		false, n };
	softexec::reduce_copy(r, s);
	auto sum = [&](size_t i) { return 5 * (static_cast<int>(i) - 100) + b[i] + c[i] + d[i]; };
	for (size_t i = 0; i < n; i++)
		CHECK(out[i] == sum(i) && copy[i] == sum(i), "slice of four sources, element %zu: %d", i, out[i]);
	s = { { a.data(), b.data(), c.data(), d.data() }, { a.data() }, 4, 1, true, false, n };
	softexec::reduce_copy(r, s); // into the first source
	for (size_t i = 0; i < n; i++)
		CHECK(a[i] == sum(i), "slice into its first source, element %zu: %d", i, a[i]);
	std::vector<int32_t> before = c;
	s = { { d.data(), b.data(), c.data() }, { c.data() }, 3, 1, false, false, n };
	softexec::reduce_copy(r, s); // into the last one
	for (size_t i = 0; i < n; i++)
		CHECK(c[i] == d[i] + b[i] + before[i], "slice into its last source, element %zu: %d", i, c[i]);
	CHECK(softexec::find_reduction(l, softexec::RedOp::kSumPostDiv, Type::kI32, 3, &r), "SumPostDiv");
	s = { { before.data(), before.data() }, { out.data(), copy.data() }, 2, 2, true, true, n };
	softexec::reduce_copy(r, s);
	for (size_t i = 0; i < n; i++)
		CHECK(out[i] == 2 * before[i] / 3 && copy[i] == out[i], "average of %d: %d", 2 * before[i], out[i]);
	CHECK(!softexec::find_reduction(l, softexec::RedOp::kSumPostDiv, Type::kF32, 3, &r), "f32 has no SumPostDiv");
	CHECK(!softexec::find_reduction(l, softexec::RedOp::kSumPostDiv, Type::kI32, 0, &r),
		"division by zero must be refused");
	CHECK(!softexec::find_reduction(l, softexec::RedOp::kSum, Type::kF8e4m3, 0, &r),
		"8-bit floats must be refused");
}

} // namespace

// A read of multicast memory adds 16-bit floats in f32 on NCCL 2.29, and one after another, each sum rounded, on 2.22.
void multicast_reads()
{
	const double top = 2048; // as f16, the next larger number is 2050
	for (int version : { 22203, 22907 }) {
		for (Type t : { Type::kF16, Type::kF32 }) {
			const size_t n = 1500, members = 5;
			std::vector<std::vector<char>> in(members, std::vector<char>(n * 4));
			std::vector<char> out(n * 4, 0x55);
			std::vector<const char *> src;
			for (size_t m = 0; m < members; m++) {
				for (size_t i = 0; i < n; i++)
					set(in[m].data(), i, t, m == 0 ? top : 1);
				src.push_back(in[m].data());
			}
			softexec::Reduction r;
			softexec::find_reduction(*softexec::layout_for(version), softexec::RedOp::kSum, t, 0, &r);
			softexec::reduce_members(r, out.data(), src.data(), members, n);
			const double want = version == 22203 && t == Type::kF16 ? top : top + 4;
			for (size_t i = 0; i < n; i++)
				CHECK(value(out.data(), i, t) == want, "NCCL %d type %d, element %zu: %g, want %g",
					version, static_cast<int>(t), i, value(out.data(), i, t), want);
		}
	}
}

void reduce_tests()
{
	Random random = { 88172645463325252 };
	softexec::Isa all[4];
	int n = softexec::isas(all);
	for (int i = 0; i < n; i++) {
		float_loops(all[i], random);
		integer_loops<uint8_t, int8_t>(all[i], softexec::kRow8, random);
		integer_loops<uint32_t, int32_t>(all[i], softexec::kRow32, random);
		integer_loops<uint64_t, int64_t>(all[i], softexec::kRow64, random);
		half_rounding(all[i]);
	}
	slices();
	multicast_reads();
}

} // namespace test
