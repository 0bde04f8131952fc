// SPDX-License-Identifier: Apache-2.0
//
// Element-wise reductions, with the rounding of NCCL's device code: every step is done in the element's own type,
// rounded once to nearest even (f16 and bf16 by way of f32, which has enough bits for the same result), integers wrap,
// a multiplication is never fused with an addition. Min and max of floats ignore a NaN if the other one is a number,
// and take -0 as smaller than +0.
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

// One operator on one type. arg is what the loops get as their last argument.
struct Reduction {
	size_t elt = 1; // bytes per element
	BinaryLoop reduce = nullptr; // null: this function only copies
	UnaryLoop pre = nullptr; // applied to what is read from the user's input buffer; null: nothing to do
	UnaryLoop post = nullptr; // applied to a finished sum; null: nothing to do
	uint64_t arg = 0;
};

// Fills *out for an operator and type with NCCL's operator argument. Returns false if the executor has no such
// reduction.
bool find_reduction(const Layout &l, RedOp op, Type type, uint64_t nccl_arg, Reduction *out);

// Turns NCCL's operator argument from a pointer into its value, as the device code does before a batch.
uint64_t load_arg(RedOp op, Type type, const void *ptr);

// What one slice of a primitive does: combine the sources in order, the first one through pre if pre_first, the result
// through post if post, and write it to every destination. The first source may be the first destination. Sources after
// the first need r.reduce.
struct Slice {
	const void *src[4];
	void *dst[4];
	int nsrc, ndst;
	bool pre_first, post;
	size_t n; // elements
};
void reduce_copy(const Reduction &r, const Slice &s);

// Whether reduce_copy would do arithmetic, rather than copy only.
bool is_arithmetic(const Reduction &r, const Slice &s);

// Name of the instruction set that the loops were chosen for, for messages.
const char *reduction_isa();

} // namespace softexec

#endif
