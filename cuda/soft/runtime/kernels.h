// SPDX-License-Identifier: Apache-2.0
// Kernels: which addresses stand for which of NCCL's kernels, and how they are launched.
#ifndef DDLEMU_SOFT_KERNELS_H
#define DDLEMU_SOFT_KERNELS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ddlemuSoftKernel {
	const void *address; // what NCCL launches: a stub that is never run
	const char *name; // the kernel's symbol
};

// ddlemuSoftRegisterKernels is called by a relinked NCCL's constructor with its version (22203 for 2.22.3) and all of
// its kernels. An unknown version is refused: it says so on stderr, and every later call returns
// cudaErrorNotSupported.
void ddlemuSoftRegisterKernels(int nccl_version, const struct ddlemuSoftKernel *kernels, size_t count);

// ddlemuSoftKnowsNccl returns 1 if the executor knows the layouts of an NCCL version, else 0.
int ddlemuSoftKnowsNccl(int nccl_version);

// ddlemuSoftStats tells what the executor has spent its time on in this process; the structure is in exec/exec.h.
struct softexec_stats;
void ddlemuSoftStats(struct softexec_stats *out);

#ifdef __cplusplus
}

#include <cuda_runtime_api.h>

namespace soft {

// launch queues a kernel with a copy of its flat parameter buffer. The handle is one that cudaGetFuncBySymbol gave.
cudaError_t launch(cudaFunction_t function, unsigned grid, unsigned block, const void *args, size_t args_size,
	cudaStream_t stream, cudaEvent_t started);

} // namespace soft
#endif

#endif
