// SPDX-License-Identifier: Apache-2.0
//
// The executor: it does on the CPU what NCCL's device kernels do on a GPU.
//
// The software CUDA runtime calls it when NCCL launches a kernel. One call runs one grid to completion. For every
// channel it moves data between the user's buffers and NCCL's connection buffers, reduces it, and advances the step
// counters that NCCL's proxy threads and the peer ranks wait for. A launch that the executor does not support is
// refused: one line on stderr says why, and no memory has been changed.
#ifndef DDLEMU_SOFT_EXEC_H
#define DDLEMU_SOFT_EXEC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct softexec_launch {
	const char *kernel;
	void *args;
	size_t args_size;
	unsigned grid, block;
	int device;
	int64_t ready; // when it could start, in ns of CLOCK_MONOTONIC; 0: now. Only on a real clock
	// The members of the communicator, as ranks of the job, and its number among the communicators of this process.
	// No members: they are not known.
	const int *members;
	int member_count;
	unsigned comm;
};

// Counters of this process since it started. Times are nanoseconds, summed over threads.
struct softexec_stats {
	uint64_t launches; // grids run to completion, without refused and aborted ones
	uint64_t reduce_ns; // time in reductions, including the copies that are part of them
	uint64_t copy_ns; // time in plain copies, and in packing and unpacking LL and LL128 lines
	uint64_t wait_ns; // time spent waiting for a proxy or a peer
	uint64_t bytes; // payload bytes reduced or copied; a slice counts once, however many destinations it has
	uint64_t refused; // launches refused
};

// Returns 1 if there is a layout table for an NCCL version, written as ncclGetVersion does (22203, 22907), else 0.
int softexec_supports(int nccl_version);

// Selects the layout table for an NCCL version. Call it before the first launch. Returns 0, or -1 if there is no table
// for that version; launches are then refused.
int softexec_select_version(int nccl_version);

// Runs the whole grid. Returns when every block has finished: 0, or a cudaError_t value. Several threads may call it at
// the same time, each with one grid. If the communicator is aborted, it returns 0 early, as a kernel on a GPU does. It
// returns cudaErrorLaunchTimeout after a deadlock in virtual time, and if it waits after softexec_rank_died.
int softexec_run(const struct softexec_launch *l);

// Says that a rank of the job died. From then on a grid that can do nothing for a second fails. -1: no longer.
void softexec_rank_died(int rank);

// Size in bytes of an element of an ncclDataType_t.
size_t softexec_type_size(int nccl_type);

// Multiplies count elements of src by a factor into dst, which may be src, with the rounding of a kernel. The factor is
// the operator argument of ncclRedOpCreatePreMulSum: a value of the type, or a pointer to it. Returns 0, or -1 for the
// 8-bit floats; a count of 0 only checks the type.
int softexec_scale(int nccl_type, void *dst, const void *src, size_t count, uint64_t factor, int factor_is_pointer);

// Copies the counters to *out. Safe to call at any time. If DDLEMU_SOFT_STATS names a file, the counters are written
// there as JSON when the process exits, unless it launched nothing. %p in the name stands for the process id.
void softexec_stats(struct softexec_stats *out);

#ifdef __cplusplus
}
#endif

#endif
