// SPDX-License-Identifier: Apache-2.0
// Linked into a relinked NCCL: what a collective of a communicator with one rank does. The archive's own version is
// in an object that holds device code.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "../runtime/kernels.h"

// NCCL's structure, by which the function's C++ name is made; the same in every version that setup accepts.
enum ncclDevRedOp_t { kSum, kProd, kMinMax, kPreMulSum, kSumPostDiv };
struct ncclDevRedOpFull {
	ncclDevRedOp_t op;
	ncclRedOp_t proxyOp;
	bool scalarArgIsPtr;
	uint64_t scalarArg;
};

// Only PreMulSum changes the data of a single rank.
ncclResult_t ncclLaunchOneRank(
	void *dst, void const *src, size_t count, ncclDevRedOpFull op, ncclDataType_t type, cudaStream_t stream)
{
	switch (ddlemuSoftOneRank(
		dst, src, count, type, op.op == kPreMulSum, op.scalarArg, op.scalarArgIsPtr, stream)) {
	case cudaSuccess:
		return ncclSuccess;
	case cudaErrorInvalidValue:
		return ncclInvalidArgument;
	default:
		return ncclUnhandledCudaError;
	}
}
