// SPDX-License-Identifier: Apache-2.0
//
// NCCL's device functions: a work batch names one by its number, funcId.
#ifndef DDLEMU_SOFT_EXEC_FUNCS_H
#define DDLEMU_SOFT_EXEC_FUNCS_H

#include <string>
#include <vector>

#include "layout.h"

namespace softexec {

enum class Coll { kBroadcast, kReduce, kAllGather, kAllGatherV, kReduceScatter, kAllReduce, kSendRecv };
enum class RedOp { kNone, kSum, kProd, kMinMax, kPreMulSum, kSumPostDiv };
enum class Type { kNone, kI8, kU8, kI32, kU32, kI64, kU64, kF16, kF32, kF64, kBf16, kF8e4m3, kF8e5m2 };
enum class Algo { kNone, kTree, kRing, kCollnetDirect, kCollnetChain, kNvls, kNvlsTree, kPat };
enum Proto : int { kLL = 0, kLL128 = 1, kSimple = 2 }; // NCCL's own numbers: they index buffer tables

struct Func {
	Coll coll;
	RedOp op;
	Type type;
	Algo algo;
	Proto proto;
	std::string name; // such as AllReduce_Sum_f32_RING_LL
	std::string kernel; // the function in the name of the kernel that NCCL launches for it
};

inline bool is_nvls(const Func &f) { return f.algo == Algo::kNvls || f.algo == Algo::kNvlsTree; }

// Returns the size of an element in bytes. Functions that only copy have no type and count bytes.
size_t type_size(Type t);

// The type of an ncclDataType_t; the two enumerations have the same order.
inline Type type_of(int nccl_type) { return static_cast<Type>(nccl_type + 1); }

// Returns all functions of a version; funcId is the index. Built at the first call; safe from several threads.
const std::vector<Func> &functions(const Layout &l);

} // namespace softexec

#endif
