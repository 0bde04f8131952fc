// SPDX-License-Identifier: Apache-2.0
//
// The loops, one row per element type.
#ifndef DDLEMU_SOFT_EXEC_REDUCE_LOOPS_H
#define DDLEMU_SOFT_EXEC_REDUCE_LOOPS_H

#include "reduce.h"

namespace softexec {

struct Loops {
	BinaryLoop sum, prod, min_max;
	UnaryLoop mul, divide;
	ManyLoop sum_many; // null if sum gives the same
};

enum LoopRow { kRow8, kRow32, kRow64, kRowF16, kRowBf16, kRowF32, kRowF64, kLoopRows };

// One instruction set's loops.
struct Isa {
	const char *name;
	const Loops *rows; // indexed by LoopRow
};

// Lists the instruction sets that were compiled and that this CPU has, the fastest last. Returns their number, at
// most 4.
int isas(Isa out[4]);

} // namespace softexec

#endif
