// SPDX-License-Identifier: Apache-2.0
// Graphs and stream capture: there are none. No stream is ever capturing, and everything that would build a graph is
// refused by name. The functions that are refused here are those that NCCL's archive links against; they need no
// parameters.
#include <cuda_runtime_api.h>

#include "error.h"
#include "streams.h"

using namespace soft;

namespace {

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

cudaError_t not_capturing(cudaStream_t handle, cudaStreamCaptureStatus *status, unsigned long long *id)
{
	if (!status)
		return result(cudaErrorInvalidValue);
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	*status = cudaStreamCaptureStatusNone;
	if (id)
		*id = 0;
	return cudaSuccess;
}

} // namespace

SOFT_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status)
{
	return not_capturing(stream, status, nullptr);
}

SOFT_API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
	unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count)
{
	if (graph)
		*graph = nullptr;
	if (dependencies)
		*dependencies = nullptr;
	if (count)
		*count = 0;
	return not_capturing(stream, status, id);
}

SOFT_API cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
	unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const void **edges,
	size_t *count)
{
	if (edges)
		*edges = nullptr;
	return cudaStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count);
}

SOFT_API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	if (!mode)
		return result(cudaErrorInvalidValue);
	const cudaStreamCaptureMode before = mode_of_thread;
	mode_of_thread = *mode;
	*mode = before;
	return cudaSuccess;
}

#define REFUSED(name) \
	SOFT_API cudaError_t name(void) { return unsupported(#name); }

REFUSED(cudaStreamUpdateCaptureDependencies)
REFUSED(cudaStreamUpdateCaptureDependencies_v2)
REFUSED(cudaUserObjectCreate)
REFUSED(cudaGraphRetainUserObject)
REFUSED(cudaGraphAddDependencies)
REFUSED(cudaGraphAddDependencies_v2)
REFUSED(cudaGraphAddEventRecordNode)
REFUSED(cudaGraphAddEventWaitNode)
REFUSED(cudaGraphAddHostNode)
REFUSED(cudaGraphAddKernelNode)
