// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: the collectives of a communicator with one rank. NCCL's version is in an object with device code,
// which relinking leaves out.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "../runtime/kernels.h"

// NCCL's structure, which is a part of the function's mangled name. The same in all supported versions.
enum ncclDevRedOp_t { kSum, kProd, kMinMax, kPreMulSum, kSumPostDiv };
struct ncclDevRedOpFull {
	ncclDevRedOp_t op;
	ncclRedOp_t proxyOp;
	bool scalarArgIsPtr;
	uint64_t scalarArg;
};

// PreMulSum is the only operator that changes the data of a single rank.
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
