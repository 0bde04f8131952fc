// SPDX-License-Identifier: Apache-2.0
//
// PAT (parallel aggregated trees), NCCL's algorithm for all-gather and reduce-scatter with one GPU per node.
//
// Rank r sees the others by their distance s: rank r+s, modulo the number of ranks. Data for or from distance s travels
// along a binomial tree: s's parent is s with its lowest set bit cleared, and the hop between them goes 2^d ranks far,
// d being that bit's number, the "dimension". Reduce-scatter goes from child to parent, distance 0 being the result;
// all-gather the other way.
//
// Several hops of a dimension are put into one step of the connection if they fit. The distances 0 ... D*A-1 are seen
// as A multiples of D with D "columns"; the hops of a column c, one for each multiple m, form a train: distances m*D +
// c. So do those of column 0 that share a dimension. A train is sent in groups of P hops, one step each; groups without
// any rank are left out.
#ifndef DDLEMU_SOFT_EXEC_PAT_H
#define DDLEMU_SOFT_EXEC_PAT_H

#include <cstddef>
#include <vector>

namespace softexec {

// What a rank does with one hop. Slots count from the start of a step's buffer, in units of a chunk.
struct PatStep {
	int recv_dim = -1, send_dim = -1; // -1: none; the user's buffer stands in
	int recv_slot = 0, send_slot = 0;
	int recv_ahead = 0, send_ahead = 0; // steps beyond the connection's current one
	bool post_recv = false, post_send = false;
	int distance = 0; // whose data it is
};

struct PatShape {
	int ranks;
	int multiples; // A
	int columns; // D
	int group; // P
};

// The shape that NCCL's host code expects: step_bytes is the size of a chunk, channel_bytes what a channel does per
// rank.
PatShape pat_shape(int ranks, size_t step_bytes, size_t channel_bytes);

// What a rank does for one chunk, in order.
std::vector<PatStep> pat_reduce_scatter(const PatShape &s);
std::vector<PatStep> pat_all_gather(const PatShape &s);

} // namespace softexec

#endif
