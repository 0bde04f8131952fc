// SPDX-License-Identifier: Apache-2.0
// Kernels: which addresses stand for which of NCCL's kernels, and how they are launched.
#pragma once

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

extern "C" {

struct ddlemuSoftKernel {
	const void *address; // what NCCL launches: a stub that is never run
	const char *name; // the kernel's symbol
};

// ddlemuSoftRegisterKernels is called by a relinked NCCL's constructor with its version (22203 for 2.22.3) and all of
// its kernels. An unknown version is refused: it says so on stderr, and every later call returns
// cudaErrorNotSupported.
void ddlemuSoftRegisterKernels(int nccl_version, const struct ddlemuSoftKernel *kernels, size_t count);

// ddlemuSoftSupportsNccl returns 1 if the executor knows the layouts of an NCCL version, else 0.
int ddlemuSoftSupportsNccl(int nccl_version);

// ddlemuSoftOneRank queues what a collective of a communicator with one rank does: it copies count elements of an
// ncclDataType_t, or, if scaled, multiplies them by a factor (see softexec_scale). cudaErrorInvalidValue: the type
// cannot be scaled.
cudaError_t ddlemuSoftOneRank(void *dst, const void *src, size_t count, int nccl_type, int scaled, uint64_t factor,
	int factor_is_pointer, cudaStream_t stream);

} // extern "C"

namespace soft {

// launch queues a kernel with a copy of its flat parameter buffer. The handle is one that cudaGetFuncBySymbol gave.
cudaError_t launch(cudaFunction_t function, unsigned grid, unsigned block, const void *args, size_t args_size,
	cudaStream_t stream, cudaEvent_t started);

} // namespace soft
