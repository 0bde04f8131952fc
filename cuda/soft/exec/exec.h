// SPDX-License-Identifier: Apache-2.0
//
// The CPU executor: does on the host what NCCL's device kernels do on a GPU.
//
// The software CUDA runtime calls it when NCCL launches a kernel. One call runs one grid to completion: it moves the
// data of every channel between the user's buffers and NCCL's connection buffers, reduces it, and posts the steps that
// NCCL's proxy threads and the peer ranks wait for. What it can't do right it refuses with one line on stderr; a
// refused launch has touched nothing.
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
};

// What the executor has done in this process since it started. Times are nanoseconds summed over threads.
struct softexec_stats {
	uint64_t launches; // grids run to completion (refused and aborted ones not included)
	uint64_t reduce_ns; // in reductions, with the copies that are part of them
	uint64_t copy_ns; // in plain copies, and packing or unpacking of LL and LL128 lines
	uint64_t wait_ns; // nothing to do: waiting for a proxy or a peer
	uint64_t bytes; // payload bytes that reductions and copies went over (each slice once, however many
			// destinations)
	uint64_t refused; // launches refused
};

// Selects the layout table for an NCCL version, written as ncclGetVersion does (22203, 22907). Call it before the first
// launch. Returns 0, or -1 if there is no table for that version; launches are then refused.
int softexec_version(int nccl_version);

// Runs the whole grid and returns when every block has finished: 0, or a cudaError_t value.
// Safe to call from several threads at once, one grid each. An abort of the communicator ends it early with 0, as on a
// GPU.
int softexec_run(const struct softexec_launch *l);

// Size in bytes of an element of an ncclDataType_t.
size_t softexec_type_size(int nccl_type);

// Multiplies count elements of src by a factor into dst, which may be src, with the rounding of a kernel. The factor is
// the operator argument of ncclRedOpCreatePreMulSum: a value of the type, or a pointer to it. Returns 0, or -1 for the
// 8-bit floats; a count of 0 only checks the type.
int softexec_scale(int nccl_type, void *dst, const void *src, size_t count, uint64_t factor, int factor_is_pointer);

// Writes a snapshot of the counters to *out. Safe to call at any time.
// If DDLEMU_SOFT_STATS names a file, the same is written there as JSON when the process exits, unless it launched
// nothing. %p in the name stands for the process's number.
void softexec_stats(struct softexec_stats *out);

#ifdef __cplusplus
}
#endif

#endif
