// SPDX-License-Identifier: Apache-2.0
//
// One collective operation of a benchmark: its buffers, input, launch and check. `count` is the count argument of the
// NCCL call, as in nccl-tests: per rank for all_gather, reduce_scatter and hypercube, per pair of ranks for alltoall,
// gather and scatter.

#ifndef DDLEMU_RANK_OPERATION_H
#define DDLEMU_RANK_OPERATION_H

#include <stddef.h>
#include <stdint.h>

#include "api.h"
#include "pattern.h"
#include "types.h"

// Two device buffers of this rank. Each is large enough for the input and for the output, so that an in-place
// collective uses the second only.
struct buffers {
	char *send, *recv;
	size_t bytes; // of each
	void *stage; // host memory for copies, STAGE_BYTES bytes
	int direct; // the device's memory is the host's: it is filled and checked without calls of CUDA
};

enum { STAGE_BYTES = 1 << 20 };

struct operation {
	enum collective coll;
	enum data_type type;
	enum red_op op;
	int root; // for send and recv the peer
	int rank, ranks, in_place;
	int decides; // no kernel is run, and the buffers have no memory
	size_t count;
	size_t send_elements, recv_elements; // of this rank
	uint64_t seed; // of the input
	int filled; // the input has been written
	nccl_comm comm; // on which it is called
	uint64_t launches; // since the input was written
};

// Computes the element counts. Returns 0, or -1 with one line in err if the root is no rank, the collective has no
// in-place form, or cannot be run by so many ranks.
int operation_check(struct operation *operation, char *err, size_t err_size);

// Returns the bytes that each buffer must have.
size_t operation_bytes(const struct operation *operation);

// True if the result is the same when the collective runs several times with one input.
int operation_repeatable(const struct operation *operation);

// Writes this rank's input, and wrong values to the output, so that the check finds elements that were not written.
// Returns the CUDA runtime's result.
cuda_result operation_fill(struct operation *operation, const struct buffers *buffers, uint64_t seed);

// Queues the collective once on stream. Increments operation->launches.
nccl_result operation_launch(struct operation *operation, const struct buffers *buffers, cuda_stream stream);

// Compares every element of this rank's output with the correct value. Sets *checked to their number: 0 if the
// collective has no output on this rank. Returns the CUDA runtime's result.
cuda_result operation_verify(
	const struct operation *operation, const struct buffers *buffers, struct mismatch *found, uint64_t *checked);

#endif
