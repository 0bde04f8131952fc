// SPDX-License-Identifier: Apache-2.0
//
// One collective as it is measured: its buffers, its launch, its input and its check. Counts follow nccl-tests:
// `count` is the count that NCCL's call takes, which is per rank for all_gather and reduce_scatter and per pair of
// ranks for alltoall.

#ifndef DDLEMU_RANK_JOB_H
#define DDLEMU_RANK_JOB_H

#include <stddef.h>
#include <stdint.h>

#include "api.h"
#include "pattern.h"
#include "types.h"

// Two device buffers of this rank. Both hold the larger of what is sent and what is received, so that an in-place
// collective needs the second only.
struct buffers {
	char *send, *recv;
	size_t bytes; // of each
	void *stage; // host memory for copies, STAGE_BYTES
};

enum { STAGE_BYTES = 1 << 20 };

struct job {
	enum collective coll;
	enum data_type type;
	enum red_op op;
	int root, rank, ranks, in_place;
	size_t count;
	size_t send_elements, recv_elements; // this rank's
	uint64_t seed; // of the input that is there
	int filled; // input is there
	uint64_t launches; // since the input was written
};

// Works out the element counts. Returns 0, or -1 with one line in err: a root that is no rank, or a collective that
// has no in-place form.
int job_check(struct job *job, char *err, size_t err_size);

// Bytes that each buffer must hold for job.
size_t job_bytes(const struct job *job);

// True if the result stays the same however often the collective runs on one input.
int job_repeatable(const struct job *job);

// Writes this rank's input and spoils the output, so that a result that was never written does not pass. Returns the
// CUDA runtime's result.
cuda_result job_fill(struct job *job, const struct buffers *buffers, uint64_t seed);

// Enqueues the collective once on stream. Adds one to job->launches.
nccl_result job_launch(struct job *job, const struct buffers *buffers, nccl_comm comm, cuda_stream stream);

// Compares every element of this rank's output with what it must be. checked gets their number: 0 where the
// collective defines no output on this rank. Returns the CUDA runtime's result.
cuda_result job_verify(const struct job *job, const struct buffers *buffers, struct mismatch *found, uint64_t *checked);

#endif
