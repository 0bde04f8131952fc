// SPDX-License-Identifier: Apache-2.0
//
// For tests: checks, and scalar arithmetic of the element types, independent of the executor's loops.
#ifndef DDLEMU_SOFT_EXEC_TEST_UTIL_H
#define DDLEMU_SOFT_EXEC_TEST_UTIL_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "../../funcs.h"

extern int failures;

// Reports a failed check and continues. The program's exit status is 1 then.
#define CHECK(cond, ...) \
	do { \
		if (!(cond)) { \
			failures++; \
			if (failures <= 20) { \
				std::fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #cond); \
				std::fprintf(stderr, __VA_ARGS__); \
				std::fprintf(stderr, "\n"); \
			} \
		} \
	} while (0)

namespace test {

using softexec::Type;

// A 16-bit float format. A double holds all its values exactly.
struct Format {
	int exponent_bits, mantissa_bits;
};
constexpr Format kHalf = { 5, 10 }, kBfloat = { 8, 7 };

inline double decode_float(uint16_t v, Format f)
{
	int e = v >> f.mantissa_bits & ((1 << f.exponent_bits) - 1), m = v & ((1 << f.mantissa_bits) - 1);
	int bias = (1 << (f.exponent_bits - 1)) - 1;
	double sign = v >> 15 ? -1 : 1;
	if (e == (1 << f.exponent_bits) - 1)
		return m ? NAN : sign * INFINITY;
	if (e == 0)
		return sign * std::ldexp(m, 1 - bias - f.mantissa_bits);
	return sign * std::ldexp(m + (1 << f.mantissa_bits), e - bias - f.mantissa_bits);
}

// Rounds to nearest even: nearbyint's default rounding mode.
inline uint16_t encode_float(double d, Format f)
{
	int bias = (1 << (f.exponent_bits - 1)) - 1, top = (1 << f.exponent_bits) - 1;
	uint16_t sign = std::signbit(d) ? 0x8000 : 0;
	if (std::isnan(d))
		return static_cast<uint16_t>(0x7fff);
	d = std::fabs(d);
	if (d == 0)
		return sign;
	int e = std::isinf(d) ? top : std::max(std::ilogb(d), 1 - bias);
	if (std::isinf(d))
		return static_cast<uint16_t>(sign | top << f.mantissa_bits);
	long m = static_cast<long>(std::nearbyint(std::ldexp(d, f.mantissa_bits - e))); // in units of the last place
	long bits = (static_cast<long>(e + bias - 1) << f.mantissa_bits) + m; // a carry increases the exponent
	if (e == 1 - bias && m < (1 << f.mantissa_bits))
		bits = m; // subnormal
	bits = std::min(bits, static_cast<long>(top) << f.mantissa_bits);
	return static_cast<uint16_t>(sign | bits);
}

// Writes v as element i of p.
inline void set(void *p, size_t i, Type t, double v)
{
	auto put = [&](auto x) { std::memcpy(static_cast<char *>(p) + i * sizeof x, &x, sizeof x); };
	switch (t) {
	case Type::kI8:
		return put(static_cast<int8_t>(v));
	case Type::kU8:
		return put(static_cast<uint8_t>(v));
	case Type::kI32:
		return put(static_cast<int32_t>(v));
	case Type::kU32:
		return put(static_cast<uint32_t>(v));
	case Type::kI64:
		return put(static_cast<int64_t>(v));
	case Type::kU64:
		return put(static_cast<uint64_t>(v));
	case Type::kF16:
		return put(encode_float(v, kHalf));
	case Type::kBf16:
		return put(encode_float(v, kBfloat));
	case Type::kF32:
		return put(static_cast<float>(v));
	default:
		return put(v);
	}
}

// Reads element i of p.
inline double value(const void *p, size_t i, Type t)
{
	auto get = [&](auto x) {
		std::memcpy(&x, static_cast<const char *>(p) + i * sizeof x, sizeof x);
		return x;
	};
	switch (t) {
	case Type::kI8:
		return get(int8_t());
	case Type::kU8:
		return get(uint8_t());
	case Type::kI32:
		return get(int32_t());
	case Type::kU32:
		return get(uint32_t());
	case Type::kI64:
		return static_cast<double>(get(int64_t()));
	case Type::kU64:
		return static_cast<double>(get(uint64_t()));
	case Type::kF16:
		return decode_float(get(uint16_t()), kHalf);
	case Type::kBf16:
		return decode_float(get(uint16_t()), kBfloat);
	case Type::kF32:
		return get(float());
	default:
		return get(double());
	}
}

// A random number generator: every run of a test draws the same numbers.
struct Random {
	uint64_t state;
	uint64_t operator()()
	{
		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		return state;
	}
};

// The groups of tests, as the test program names them.
void layout_tests();
void reduce_tests();
void collective_tests();
void p2p_tests();
void launch_tests();
void cost_tests();

} // namespace test

#endif
