// SPDX-License-Identifier: Apache-2.0
// NCCL's data types for check.cc: size, name, and conversion to and from double for values that are exact.
#pragma once

#include <nccl.h>

#include "../exec/exectest/testdata/test_util.h"

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

static inline void store(ncclDataType_t type, char *p, double v) { test::set(p, 0, softexec::type_of(type), v); }
static inline double load(ncclDataType_t type, const char *p) { return test::value(p, 0, softexec::type_of(type)); }
