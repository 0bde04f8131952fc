// SPDX-License-Identifier: Apache-2.0
//
// The input of the ranks, and the correct result. Every element is a function of (seed, rank, index), so that each rank
// can compute the input of all ranks.
//
// Moved data (all_gather, broadcast, sendrecv, alltoall) is random bits, compared bit by bit. Reduced data has values
// for which the result does not depend on the order of the reduction:
//
//   integers, sum and prod   any value; the result wraps modulo 2^bits                                       exact
//   integers, min and max    any value                                                                      exact
//   integers, avg            0 ... max/ranks, so that the sum does not overflow; the quotient is truncated    exact
//   floats, sum              integers up to 2^p/ranks in magnitude, p the significand's bits: every
//                            partial sum is an integer up to 2^p                                             exact
//   floats, prod             the factor of one rank is an integer up to 127; of seven ranks it is 0.5, 1 or
//                            2; of the others it is 1; signs are random: 7 bits times a power of two         exact
//   floats, min and max      integers up to 2^p in magnitude                                                 exact
//   floats, avg              as sum. NCCL multiplies each input by 1/ranks and adds.
//                            If ranks is a power of two:                                                     exact
//                            Otherwise 1/ranks, each product and each of the ranks-1 additions are rounded:
//                            tolerance (ranks+3) * 2^-p * sum|input| / ranks
//
// p is 8 for bfloat16, 11 for half and 24 for float. For double, 30 is used, with a roundoff of 2^-53.

#ifndef DDLEMU_RANK_PATTERN_H
#define DDLEMU_RANK_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "types.h"

struct pattern {
	enum data_type type;
	enum red_op op;
	int reduced; // 0: moved data, op is ignored
	int ranks;
	uint64_t seed;
};

// The result of a check.
struct mismatch {
	uint64_t wrong; // number of wrong elements
	uint64_t first; // index of the first of them, as counted by the caller; only if wrong > 0
	char got[32]; // its value
	char want[32]; // the correct value
};

// Writes elements first ... first+n-1 of rank's input to out.
void pattern_input(const struct pattern *p, int rank, uint64_t first, size_t n, void *out);

// Compares n elements at got with the input of rank source from element first on (moved data). at is the index of the
// first one in reports. Adds to m.
void pattern_check_moved(const struct pattern *p, int source, uint64_t first, size_t n, const void *got, uint64_t at,
	struct mismatch *m);

// The same for reduced data: compares with the reduction of all ranks' inputs.
void pattern_check_reduced(
	const struct pattern *p, uint64_t first, size_t n, const void *got, uint64_t at, struct mismatch *m);

#endif
