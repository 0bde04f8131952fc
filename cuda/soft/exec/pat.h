// SPDX-License-Identifier: Apache-2.0
//
// PAT (parallel aggregated trees): NCCL's algorithm for AllGather and ReduceScatter with one GPU per node
// (PatRSAlgorithm and PatAGAlgorithm in NCCL's collectives.h).
//
// A rank r numbers the other ranks by their distance s: rank r+s, modulo the number of ranks. The data for or from
// distance s moves along a binomial tree. The parent of s is s with its lowest set bit cleared. If that bit is bit d,
// the hop between them spans 2^d ranks; d is the hop's dimension. ReduceScatter goes from child to parent and ends at
// distance 0. AllGather goes from parent to child.
//
// Several hops of one dimension are sent in one step of the connection, if they fit. The distances 0 ... D*A-1 are
// written m*D + c, with a multiple m < A and a column c < D. The hops of a column, one for each m, are a sequence; so
// are the hops of column 0 with the same dimension. A sequence is sent in groups of P hops, each group in one step. A
// group is skipped if none of its distances is a rank.
//
// shaper/nccl/plan/pat.go has the schedule a second time, on purpose: a run on the virtual clock compares what this
// code does with the expected time, and so finds a mistake in either.
#ifndef DDLEMU_SOFT_EXEC_PAT_H
#define DDLEMU_SOFT_EXEC_PAT_H

#include <cstddef>
#include <vector>

namespace softexec {

// What a rank does for one hop. Slots are chunks within the buffer of a step.
struct PatStep {
	int recv_dim = -1, send_dim = -1; // dimension of the connection; -1: the user's buffer is used instead
	int recv_slot = 0, send_slot = 0;
	int recv_ahead = 0, send_ahead = 0; // steps after the connection's current one
	bool post_recv = false, post_send = false; // the step is complete
	int distance = 0; // of the rank whose data it is
};

struct PatShape {
	int ranks;
	int multiples; // A
	int columns; // D
	int group; // P
};

// Returns the shape that NCCL's host code expects. step_bytes is the size of a chunk, channel_bytes a channel's share
// of one rank's data.
PatShape pat_shape(int ranks, size_t step_bytes, size_t channel_bytes);

// Return what a rank does for one chunk, in order.
std::vector<PatStep> pat_reduce_scatter(const PatShape &s);
std::vector<PatStep> pat_all_gather(const PatShape &s);

} // namespace softexec

#endif
