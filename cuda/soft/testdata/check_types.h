// SPDX-License-Identifier: Apache-2.0
// NCCL's data types for check.cc: size, name, and conversion to and from double for values that fit exactly.
#pragma once

#include <nccl.h>
#include <stdint.h>
#include <string.h>

#include <cmath>

static inline bool is_integer(ncclDataType_t type)
{
	return type != ncclFloat16 && type != ncclBfloat16 && type != ncclFloat32 && type != ncclFloat64;
}

static inline size_t size_of(ncclDataType_t type)
{
	switch (type) {
	case ncclInt8:
	case ncclUint8:
		return 1;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	case ncclInt64:
	case ncclUint64:
	case ncclFloat64:
		return 8;
	default:
		return 4;
	}
}

static inline const char *name_of(ncclDataType_t type)
{
	switch (type) {
	case ncclInt8:
		return "int8";
	case ncclUint8:
		return "uint8";
	case ncclInt32:
		return "int32";
	case ncclUint32:
		return "uint32";
	case ncclInt64:
		return "int64";
	case ncclUint64:
		return "uint64";
	case ncclFloat16:
		return "f16";
	case ncclBfloat16:
		return "bf16";
	case ncclFloat32:
		return "f32";
	case ncclFloat64:
		return "f64";
	default:
		return "?";
	}
}

template <class T>
static inline void put_as(char *p, double v)
{
	T t = static_cast<T>(v);
	memcpy(p, &t, sizeof t);
}

template <class T>
static inline double get_as(const char *p)
{
	T t;
	memcpy(&t, p, sizeof t);
	return static_cast<double>(t);
}

// The 16-bit floats of normal numbers and zero: all that the checks use.
static inline uint16_t half_bits(double v)
{
	if (v == 0)
		return 0;
	int e;
	double m = std::frexp(std::fabs(v), &e); // in [0.5, 1)
	return static_cast<uint16_t>((v < 0 ? 0x8000 : 0) | (e + 14) << 10 | (static_cast<int>(m * 2048) & 1023));
}

static inline double half_value(uint16_t bits)
{
	int e = bits >> 10 & 31, m = bits & 1023;
	double a = e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
	return bits & 0x8000 ? -a : a;
}

static inline void store(ncclDataType_t type, char *p, double v)
{
	switch (type) {
	case ncclInt8:
		return put_as<int8_t>(p, v);
	case ncclUint8:
		return put_as<uint8_t>(p, v);
	case ncclInt32:
		return put_as<int32_t>(p, v);
	case ncclUint32:
		return put_as<uint32_t>(p, v);
	case ncclInt64:
		return put_as<int64_t>(p, v);
	case ncclUint64:
		return put_as<uint64_t>(p, v);
	case ncclFloat32:
		return put_as<float>(p, v);
	case ncclFloat64:
		return put_as<double>(p, v);
	case ncclFloat16: {
		const uint16_t bits = half_bits(v);
		memcpy(p, &bits, sizeof bits);
		return;
	}
	case ncclBfloat16: {
		const float f = static_cast<float>(v);
		memcpy(p, reinterpret_cast<const char *>(&f) + 2, 2);
		return;
	}
	default:
		return;
	}
}

static inline double load(ncclDataType_t type, const char *p)
{
	switch (type) {
	case ncclInt8:
		return get_as<int8_t>(p);
	case ncclUint8:
		return get_as<uint8_t>(p);
	case ncclInt32:
		return get_as<int32_t>(p);
	case ncclUint32:
		return get_as<uint32_t>(p);
	case ncclInt64:
		return static_cast<double>(get_as<int64_t>(p));
	case ncclUint64:
		return static_cast<double>(get_as<uint64_t>(p));
	case ncclFloat32:
		return get_as<float>(p);
	case ncclFloat64:
		return get_as<double>(p);
	case ncclFloat16:
		return half_value(static_cast<uint16_t>(
			static_cast<unsigned char>(p[0]) | static_cast<unsigned char>(p[1]) << 8));
	case ncclBfloat16: {
		float f = 0;
		memcpy(reinterpret_cast<char *>(&f) + 2, p, 2);
		return f;
	}
	default:
		return NAN;
	}
}
