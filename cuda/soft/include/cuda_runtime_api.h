// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime API of ddlemu's software CUDA: a subset of CUDA 12's, and binary compatible with it (enumerator
// values, structure layouts, symbol names). A function that is not declared here does not exist.
//
// Everything runs on the CPU. Device memory is host memory, so the host can read a device pointer; a program that does
// so does not run on a GPU. Programs cannot compile or launch kernels: only NCCL's kernels run.
//
// Every function is safe to call from any thread and returns a cudaError_t. Sizes are in bytes.
#ifndef DDLEMU_SOFT_CUDA_RUNTIME_API_H
#define DDLEMU_SOFT_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#include "ddlemu_soft_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- Errors ---------------------------------------------------------------------------------------------------
// The last error of the calling thread. cudaGetLastError also clears it, unless it is the error of a failed kernel.
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error); // "cudaErrorInvalidValue"; never NULL
const char *cudaGetErrorString(cudaError_t error); // "invalid argument"; never NULL

// --- Devices: the ones of DDLEMU_SOFT_GPUS (default 8) that CUDA_VISIBLE_DEVICES selects ----------------------
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device); // for the calling thread
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaDeviceReset(void); // waits for the device, then destroys its streams and frees its memory
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device);
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *prop, int device);
#define cudaGetDeviceProperties cudaGetDeviceProperties_v2
cudaError_t cudaDeviceGetPCIBusId(char *bus_id, int len, int device);
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *bus_id);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags);
cudaError_t cudaDeviceDisablePeerAccess(int peer);
cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value); // accepted, without effect
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaDriverGetVersion(int *version); // 12040
cudaError_t cudaRuntimeGetVersion(int *version); // 12040
cudaError_t cudaGetDriverEntryPoint(
	const char *symbol, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status);
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int version,
	unsigned long long flags, enum cudaDriverEntryPointQueryResult *status);

// --- Memory ---------------------------------------------------------------------------------------------------
cudaError_t cudaMalloc(void **pointer, size_t size);
cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int flags);
cudaError_t cudaFree(void *pointer); // waits for the device, then returns the memory to the host
cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream);
cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream);
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props);
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attr, void *value);
cudaError_t cudaMallocHost(void **pointer, size_t size);
cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags);
cudaError_t cudaFreeHost(void *pointer);
cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags);
cudaError_t cudaHostUnregister(void *pointer);
cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer);
cudaError_t cudaMemcpy(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t size);
cudaError_t cudaMemcpyPeerAsync(
	void *dst, int dst_device, const void *src, int src_device, size_t size, cudaStream_t stream);
cudaError_t cudaMemset(void *dst, int value, size_t size);
cudaError_t cudaMemsetAsync(void *dst, int value, size_t size, cudaStream_t stream);

// Memory of another process of the same user in the same pid namespace, while that process exists.
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer);
cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags);
cudaError_t cudaIpcCloseMemHandle(void *pointer);

// --- Streams --------------------------------------------------------------------------------------------------
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority);
cudaError_t cudaStreamDestroy(cudaStream_t stream); // work that is queued still completes
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags);
cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags);
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority);
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status);
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data);

// --- Events ---------------------------------------------------------------------------------------------------
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);

// --- Kernels: only NCCL's --------------------------------------------------------------------------------------
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function);
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value);
cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *symbol);

#ifdef __cplusplus
}

// Default arguments for C++, as in CUDA's header.
static inline cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind)
{
	return cudaMemcpyAsync(dst, src, size, kind, 0);
}
static inline cudaError_t cudaMemsetAsync(void *dst, int value, size_t size)
{
	return cudaMemsetAsync(dst, value, size, 0);
}
static inline cudaError_t cudaEventRecord(cudaEvent_t event) { return cudaEventRecord(event, 0); }
static inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event)
{
	return cudaStreamWaitEvent(stream, event, 0);
}
#endif

#endif
