// SPDX-License-Identifier: Apache-2.0
// The attributes of a software GPU: the attributes of the fabric's kind of GPU, else of compute capability 8.0 as an
// A100 has it.
#include <string.h>
#include <strings.h>

#include <cstdio>

#include "device.h"
#include "error.h"
#include "gpus.h"
#include "kind.h"
#include "regions.h"

namespace soft {
namespace {

constexpr int kVersion = CUDART_VERSION;
constexpr int kSharedPerBlock = 48 << 10;
constexpr int kSmsOfA100 = 108;
// CU_DEVICE_ATTRIBUTE_...
constexpr int kVirtualMemorySupported = 102; // VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
constexpr int kRdmaOfVirtualMemorySupported = 110; // GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
constexpr int kFabricHandleSupported = 128; // HANDLE_TYPE_FABRIC_SUPPORTED
constexpr int kMulticastSupported = 132; // MULTICAST_SUPPORTED
constexpr int kAttributeEnd = 142; // one more than the last attribute of CUDA 12.4

// What follows from a compute capability, from the CUDA programming guide's table.
struct Capability {
	int number; // 90 is 9.0
	int shared_per_block_optin, shared_per_sm; // KiB
	int threads_per_sm, blocks_per_sm;
};
constexpr Capability kCapabilities[] = {
	{ 70, 96, 96, 2048, 32 },
	{ 75, 64, 64, 1024, 16 },
	{ 80, 163, 164, 2048, 32 },
	{ 86, 99, 100, 1536, 16 },
	{ 89, 99, 100, 1536, 24 },
	{ 90, 227, 228, 2048, 32 },
	{ 100, 227, 228, 2048, 32 },
	{ 103, 227, 228, 2048, 32 },
	{ 120, 99, 100, 1536, 24 },
};

// capability returns the capability of the GPUs, nullptr if it is not in the table.
const Capability *capability()
{
	const int number = softGpuCapability();
	for (const Capability &c : kCapabilities)
		if (c.number == number)
			return &c;
	return nullptr;
}

int sms() { return softGpuHasKind() ? static_cast<int>(softGpuKind()->sms) : kSmsOfA100; }

int attribute(cudaDeviceAttr attr, const Capability &c, int gpu)
{
	switch (static_cast<int>(attr)) {
	case cudaDevAttrMaxThreadsPerBlock:
	case cudaDevAttrMaxBlockDimX:
	case cudaDevAttrMaxBlockDimY:
		return 1024;
	case cudaDevAttrMaxBlockDimZ:
		return 64;
	case cudaDevAttrMaxGridDimX:
		return 0x7fffffff;
	case cudaDevAttrMaxGridDimY:
	case cudaDevAttrMaxGridDimZ:
		return 65535;
	case cudaDevAttrMaxSharedMemoryPerBlock:
		return kSharedPerBlock;
	case cudaDevAttrTotalConstantMemory:
	case cudaDevAttrMaxRegistersPerBlock:
		return 64 << 10;
	case cudaDevAttrWarpSize:
		return 32;
	case cudaDevAttrMultiProcessorCount:
		return sms();
	case cudaDevAttrPciBusId:
		return kSoftGpuFirstBus + gpu;
	case cudaDevAttrAsyncEngineCount:
		return 2;
	case cudaDevAttrComputeCapabilityMajor:
		return c.number / 10;
	case cudaDevAttrComputeCapabilityMinor:
		return c.number % 10;
	case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
		return c.shared_per_sm << 10;
	case cudaDevAttrMaxSharedMemoryPerBlockOptin:
		return c.shared_per_block_optin << 10;
	case cudaDevAttrCanMapHostMemory:
	case cudaDevAttrConcurrentKernels:
	case cudaDevAttrUnifiedAddressing:
	case cudaDevAttrManagedMemory:
	case cudaDevAttrHostNativeAtomicSupported:
	case cudaDevAttrConcurrentManagedAccess:
	case cudaDevAttrCanUseHostPointerForRegisteredMem:
	case cudaDevAttrHostRegisterSupported:
	case cudaDevAttrMemoryPoolsSupported:
		return 1;
	case kMulticastSupported:
		return softGpuHasMulticast();
	// Without a domain of several nodes NCCL allocates only NVLS's memory as virtual memory.
	case kVirtualMemorySupported:
	case kRdmaOfVirtualMemorySupported:
	case kFabricHandleSupported:
		return softGpuDomain() >= 0;
	case cudaDevAttrPageableMemoryAccess:
		return pageable_access;
	// A GPU's memory is host memory, so every NIC can access it.
	case cudaDevAttrGPUDirectRDMASupported:
		return 1;
	default:
		return 0; // the feature is not supported
	}
}

// enter_device is enter for functions with a device: cudaErrorInvalidDevice if it is none.
cudaError_t enter_device(int device)
{
	if (cudaError_t err = enter())
		return err;
	return set_error(devices()->valid(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t unknown_capability() { return unsupported("the compute capability of these GPUs"); }

} // namespace
} // namespace soft

using namespace soft;

SOFT_API cudaError_t cudaGetDeviceCount(int *count)
{
	if (!count)
		return set_error(cudaErrorInvalidValue);
	*count = devices()->count();
	return set_error(devices()->failure);
}

SOFT_API cudaError_t cudaSetDevice(int device)
{
	Devices *all = devices();
	if (all->failure != cudaSuccess)
		return set_error(all->failure);
	if (!all->valid(device))
		return set_error(cudaErrorInvalidDevice);
	set_current_device(device);
	return cudaSuccess;
}

SOFT_API cudaError_t cudaGetDevice(int *device)
{
	if (!device)
		return set_error(cudaErrorInvalidValue);
	*device = current_device();
	return set_error(devices()->failure);
}

SOFT_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	if (!value || attr < 1 || attr >= kAttributeEnd)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter_device(device))
		return err;
	const Capability *c = capability();
	if (!c)
		return unknown_capability();
	*value = attribute(attr, *c, devices()->gpu(device));
	return cudaSuccess;
}

SOFT_API cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int device)
{
	if (!p)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter_device(device))
		return err;
	const Capability *c = capability();
	if (!c)
		return unknown_capability();
	const int gpu = devices()->gpu(device);
	size_t available;
	memset(p, 0, sizeof *p);
	softGpuName(gpu, p->name, sizeof p->name);
	softGpuUuid(gpu, p->uuid.bytes);
	host_memory(&p->totalGlobalMem, &available);
	if (softGpuHasKind())
		p->totalGlobalMem = softGpuKind()->memory;
	p->sharedMemPerBlock = kSharedPerBlock;
	p->sharedMemPerBlockOptin = c->shared_per_block_optin << 10;
	p->sharedMemPerMultiprocessor = c->shared_per_sm << 10;
	p->regsPerBlock = p->regsPerMultiprocessor = 64 << 10;
	p->warpSize = 32;
	p->memPitch = 0x7fffffff;
	p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
	p->maxThreadsDim[2] = 64;
	p->maxGridSize[0] = 0x7fffffff;
	p->maxGridSize[1] = p->maxGridSize[2] = 65535;
	p->totalConstMem = 64 << 10;
	p->major = c->number / 10;
	p->minor = c->number % 10;
	p->multiProcessorCount = sms();
	p->maxThreadsPerMultiProcessor = c->threads_per_sm;
	p->maxBlocksPerMultiProcessor = c->blocks_per_sm;
	p->pciBusID = kSoftGpuFirstBus + gpu;
	p->asyncEngineCount = 2;
	p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = p->managedMemory = 1;
	p->hostNativeAtomicSupported = p->concurrentManagedAccess = p->canUseHostPointerForRegisteredMem = 1;
	p->hostRegisterSupported = p->memoryPoolsSupported = 1;
	p->pageableMemoryAccess = pageable_access;
	return cudaSuccess;
}

SOFT_API cudaError_t cudaDeviceGetPCIBusId(char *bus_id, int len, int device)
{
	if (!bus_id || len < 13)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter_device(device))
		return err;
	softGpuBusId(devices()->gpu(device), bus_id, len);
	return cudaSuccess;
}

SOFT_API cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *bus_id)
{
	if (!device || !bus_id)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	const int gpu = softGpuFromBusId(bus_id);
	for (int i = 0; gpu >= 0 && i < devices()->count(); i++) {
		if (devices()->gpu(i) != gpu)
			continue;
		*device = i;
		return cudaSuccess;
	}
	return set_error(cudaErrorInvalidValue);
}

SOFT_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	if (!can)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter_device(device))
		return err;
	if (cudaError_t err = enter_device(peer))
		return err;
	*can = device != peer;
	return cudaSuccess;
}

// All memory is in one address space, so peer access is always enabled. Enabling it again is no error.
SOFT_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
{
	if (cudaError_t err = enter())
		return err;
	if (flags != 0)
		return set_error(cudaErrorInvalidValue);
	return set_error(devices()->valid(peer) && peer != current_device() ? cudaSuccess : cudaErrorInvalidDevice);
}

SOFT_API cudaError_t cudaDeviceDisablePeerAccess(int peer) { return cudaDeviceEnablePeerAccess(peer, 0); }

SOFT_API cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t)
{
	return set_error(limit >= cudaLimitStackSize && limit <= cudaLimitPersistingL2CacheSize
			? cudaSuccess
			: cudaErrorInvalidValue);
}

SOFT_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5; // the value of a GPU of this compute capability
	return cudaSuccess;
}

SOFT_API cudaError_t cudaDriverGetVersion(int *version)
{
	if (!version)
		return set_error(cudaErrorInvalidValue);
	*version = kVersion;
	return cudaSuccess;
}

SOFT_API cudaError_t cudaRuntimeGetVersion(int *version) { return cudaDriverGetVersion(version); }

// ddlemuSoftKind is the name of the kind of GPU that this process shows, "" for none: the plugin compares it with that
// of the fabric.
SOFT_API const char *ddlemuSoftKind() { return softGpuKind()->name; }
