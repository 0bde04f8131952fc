// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime API for C++: typed allocation functions and dim3. As NVIDIA's header does, it includes headers of
// the C library that programs then use.
#ifndef DDLEMU_SOFT_CUDA_RUNTIME_H
#define DDLEMU_SOFT_CUDA_RUNTIME_H

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __cplusplus
#include <new>
#include <utility>
#endif

#include "cuda_runtime_api.h"

struct uint3 {
	unsigned int x, y, z;
};

struct dim3 {
	unsigned int x, y, z;
#ifdef __cplusplus
	constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
#endif
};

#ifdef __cplusplus
template <class T>
inline cudaError_t cudaMalloc(T **pointer, size_t size)
{
	return cudaMalloc(reinterpret_cast<void **>(pointer), size);
}
template <class T>
inline cudaError_t cudaMallocManaged(T **pointer, size_t size, unsigned int flags = cudaMemAttachGlobal)
{
	return cudaMallocManaged(reinterpret_cast<void **>(pointer), size, flags);
}
template <class T>
inline cudaError_t cudaMallocAsync(T **pointer, size_t size, cudaStream_t stream)
{
	return cudaMallocAsync(reinterpret_cast<void **>(pointer), size, stream);
}
template <class T>
inline cudaError_t cudaHostAlloc(T **pointer, size_t size, unsigned int flags)
{
	return cudaHostAlloc(reinterpret_cast<void **>(pointer), size, flags);
}
template <class T>
inline cudaError_t cudaMallocHost(T **pointer, size_t size, unsigned int flags = cudaHostAllocDefault)
{
	return cudaHostAlloc(reinterpret_cast<void **>(pointer), size, flags);
}
template <class T>
inline cudaError_t cudaHostGetDevicePointer(T **device, void *host, unsigned int flags)
{
	return cudaHostGetDevicePointer(reinterpret_cast<void **>(device), host, flags);
}
inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags)
{
	return cudaEventCreateWithFlags(event, flags);
}
#endif

#endif
