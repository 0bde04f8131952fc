// SPDX-License-Identifier: Apache-2.0
// Graphs and stream capture are not supported. No stream ever captures.
#include <cuda_runtime_api.h>

#include "error.h"
#include "stream_table.h"

using namespace soft;

namespace {

thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

cudaError_t not_capturing(cudaStream_t handle, cudaStreamCaptureStatus *status, unsigned long long *id)
{
	if (!status)
		return set_error(cudaErrorInvalidValue);
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
		return set_error(cudaErrorInvalidValue);
	const cudaStreamCaptureMode before = mode_of_thread;
	mode_of_thread = *mode;
	*mode = before;
	return cudaSuccess;
}

NOT_SUPPORTED(cudaStreamUpdateCaptureDependencies)
NOT_SUPPORTED(cudaStreamUpdateCaptureDependencies_v2)
NOT_SUPPORTED(cudaUserObjectCreate)
NOT_SUPPORTED(cudaGraphRetainUserObject)
NOT_SUPPORTED(cudaGraphAddDependencies)
NOT_SUPPORTED(cudaGraphAddDependencies_v2)
NOT_SUPPORTED(cudaGraphAddEventRecordNode)
NOT_SUPPORTED(cudaGraphAddEventWaitNode)
NOT_SUPPORTED(cudaGraphAddHostNode)
NOT_SUPPORTED(cudaGraphAddKernelNode)
NOT_SUPPORTED(cudaGraphDebugDotPrint)
NOT_SUPPORTED(cudaGraphDestroy)
NOT_SUPPORTED(cudaGraphExecDestroy)
NOT_SUPPORTED(cudaGraphGetNodes)
NOT_SUPPORTED(cudaGraphNodeGetDependencies)
NOT_SUPPORTED(cudaGraphInstantiate)
NOT_SUPPORTED(cudaGraphInstantiateWithFlags)
NOT_SUPPORTED(cudaGraphLaunch)
NOT_SUPPORTED(cudaStreamBeginCapture)
NOT_SUPPORTED(cudaStreamEndCapture)
