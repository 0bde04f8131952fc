// SPDX-License-Identifier: Apache-2.0
//
// Element-wise reductions, with the rounding of NCCL's device code. Every operation is done in the element's type and
// rounded once to nearest even. (f16 and bf16 are computed in f32, which has enough bits for the same result.) Integers
// wrap. A multiplication is never fused with an addition. Min and max of floats ignore a NaN if the other operand is a
// number; -0 is smaller than +0.
#ifndef DDLEMU_SOFT_EXEC_REDUCE_H
#define DDLEMU_SOFT_EXEC_REDUCE_H

#include <cstddef>
#include <cstdint>

#include "funcs.h"

namespace softexec {

// dst[i] = a[i] op b[i] for n elements. dst may be a or b; no other overlap. No alignment is needed.
using BinaryLoop = void (*)(void *dst, const void *a, const void *b, size_t n, uint64_t arg);
// dst[i] = f(a[i]). dst may be a.
using UnaryLoop = void (*)(void *dst, const void *a, size_t n, uint64_t arg);

// dst[i] = the sum of src[0][i], src[1][i], ..., rounded once. dst does not overlap the sources.
using ManyLoop = void (*)(void *dst, const char *const *src, size_t nsrc, size_t n);

// One operator on one type. arg is the last argument of the loops.
struct Reduction {
	size_t elt = 1; // bytes per element
	BinaryLoop reduce = nullptr; // null: the function only copies
	UnaryLoop pre = nullptr; // preOp: applied to data from the user's input; null: none
	UnaryLoop post = nullptr; // postOp: applied to a final result; null: none
	ManyLoop multicast = nullptr; // reads multicast memory; null: reduce, member by member
	uint64_t arg = 0;
};

// Fills *out for an operator and type with NCCL's operator argument. Returns false if the executor has no such
// reduction.
bool find_reduction(const Layout &l, RedOp op, Type type, uint64_t nccl_arg, Reduction *out);

// Reads an operator argument that NCCL passes by pointer, as the device code does before a batch.
uint64_t load_arg(RedOp op, Type type, const void *ptr);

// One slice of a primitive: reduce the sources in order and write the result to every destination. pre_op applies r.pre
// to the first source, post_op applies r.post to the result. The first source may be the first destination. Several
// sources need r.reduce.
struct Slice {
	const void *src[4];
	void *dst[4];
	int nsrc, ndst;
	bool pre_op, post_op;
	size_t n; // elements
};
void reduce_copy(const Reduction &r, const Slice &s);

// Reduces n elements of the members of multicast memory, as a GPU does when it reads them at once. dst is none of the
// sources. One member is copied.
void reduce_members(const Reduction &r, char *dst, const char *const *src, size_t nsrc, size_t n);

// Returns true if reduce_copy does arithmetic and not only copies.
bool is_arithmetic(const Reduction &r, const Slice &s);

// Returns the name of the instruction set of the loops, for the counters.
const char *reduction_isa();

} // namespace softexec

#endif
