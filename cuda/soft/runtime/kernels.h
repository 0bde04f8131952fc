// SPDX-License-Identifier: Apache-2.0
// NCCL's kernels: their registration and their launch.
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {

struct ddlemuSoftKernel {
	const void *address; // of a stub, which is never called
	const char *name; // symbol of the kernel
};

// ddlemuSoftRegisterKernels is called by a constructor of the relinked NCCL, with its version (22203 for 2.22.3) and
// all its kernels. For an unsupported version it prints a line on stderr, and every later call returns
// cudaErrorNotSupported.
void ddlemuSoftRegisterKernels(int nccl_version, const struct ddlemuSoftKernel *kernels, size_t count);

// ddlemuSoftJobRank returns the rank of this process in the job if nodes cost time, else -1.
int ddlemuSoftJobRank(void);

// ddlemuSoftMembers says, until it is called with 0 members, whose kernels the calling thread launches: the kernels of
// the communicator with this number among the communicators of the process. ranks are the ranks of its members in the
// job.
void ddlemuSoftMembers(const int *ranks, int count, unsigned number);

// ddlemuSoftRankDied is called by the net plugin, see softexec_rank_died.
void ddlemuSoftRankDied(int rank);

// ddlemuSoftRefuseKernels makes every launch of this process fail with cudaErrorNotPermitted until it is called with 0.
// NCCL decides on a collective, and logs the decision, before it launches the kernel and starts its proxies. So a
// refused collective is decided, and moves nothing. Returns the number of launches that were refused so far.
int ddlemuSoftRefuseKernels(int refuse);

// ddlemuSoftSupportsNccl returns 1 if the executor supports an NCCL version, else 0.
int ddlemuSoftSupportsNccl(int nccl_version);

// ddlemuSoftOneRank queues what a collective of a communicator with one rank does: it copies count elements of an
// ncclDataType_t, or, if scaled, multiplies them by a factor (see softexec_scale). cudaErrorInvalidValue: the type
// cannot be scaled.
cudaError_t ddlemuSoftOneRank(void *dst, const void *src, size_t count, int nccl_type, int scaled, uint64_t factor,
	int factor_is_pointer, cudaStream_t stream);

} // extern "C"

namespace soft {

// launch queues a kernel on a stream, with a copy of its parameter buffer. function is a handle of cudaGetFuncBySymbol.
// started, if not null, is recorded when the kernel starts.
cudaError_t launch(cudaFunction_t function, unsigned grid, unsigned block, const void *args, size_t args_size,
	cudaStream_t stream, cudaEvent_t started);

} // namespace soft
