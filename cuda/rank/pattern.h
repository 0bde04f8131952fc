// SPDX-License-Identifier: Apache-2.0
//
// The data that ranks put into their buffers and what must come out. Every element is a pure function of (seed, rank,
// index), so that each rank knows every other rank's input without asking.
//
// Moved data (all_gather, broadcast, sendrecv, alltoall) is random bits, compared bit for bit. Reduced data is chosen
// so that the result does not depend on the order of the reduction:
//
//   integers, sum and prod   any value; the result wraps modulo 2^bits                                       exact
//   integers, min and max    any value                                                                      exact
//   integers, avg            0 ... max/ranks, so that the sum does not overflow; the quotient is truncated    exact
//   floats, sum              whole numbers up to 2^p/ranks in magnitude, p the significand's bits: every
//                            partial sum is a whole number up to 2^p                                         exact
//   floats, prod             one rank's factor is a whole number up to 127, seven others' are a half, one or
//                            two, the rest one, with random signs: at most 7 bits times a power of two       exact
//   floats, min and max      whole numbers up to 2^p in magnitude                                            exact
//   floats, avg              as sum. NCCL multiplies each input by 1/ranks and adds. ranks a power of two:     exact
//                            otherwise 1/ranks is rounded, each product is, and each of ranks-1 additions:
//                            tolerance (ranks+3) * 2^-p * sum|input| / ranks
//
// p is 8 for bfloat16, 11 for half, 24 for float, and taken as 30 for double, whose roundoff is 2^-53.

#ifndef DDLEMU_RANK_PATTERN_H
#define DDLEMU_RANK_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

struct pattern {
	enum data_type type;
	enum red_op op;
	int reduced; // 0: moved data, op is not looked at
	int ranks;
	uint64_t seed;
};

// What a check found.
struct mismatch {
	uint64_t wrong; // elements that are not what they must be
	uint64_t first; // index of the first of them, as counted by the caller; only if wrong > 0
	char got[32]; // its value
	char want[32]; // what it must be
};

// Writes elements first ... first+n-1 of rank's input to out.
void pattern_input(const struct pattern *p, int rank, uint64_t first, size_t n, void *out);

// Compares n elements at got with elements first ... of source's input (moved data). at is the index to report for
// the first of them. Adds to m.
void pattern_check_moved(const struct pattern *p, int source, uint64_t first, size_t n, const void *got, uint64_t at,
	struct mismatch *m);

// Compares n elements at got with the reduction over all ranks of elements first ...; otherwise as above.
void pattern_check_reduced(
	const struct pattern *p, uint64_t first, size_t n, const void *got, uint64_t at, struct mismatch *m);

#endif
