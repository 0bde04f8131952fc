// SPDX-License-Identifier: Apache-2.0
// The driver functions, which NCCL looks up by name and PyTorch finds in libcuda.so.1. Other names are "not found": so
// NCCL does not use batches of stream memory operations. Virtual memory functions (cuMem*) are there for multicast
// (NVLink SHARP), and because PyTorch looks them up when memory is out; the attribute of a device that says that they
// are supported is 0, so NCCL does not allocate with them elsewhere, unless NVLinks connect several nodes. CUresult has
// the error values of the runtime.
#include <string.h>

#include "device.h"
#include "error.h"
#include "gpus.h"
#include "kernels.h"
#include "kind.h"
#include "multicast.h"
#include "regions.h"
#include "virtual_memory.h"

namespace soft {

// CUDA's values of the extra list and the attributes of a launch.
void *const kParamEnd = nullptr;
void *const kParamBuffer = reinterpret_cast<void *>(1);
void *const kParamSize = reinterpret_cast<void *>(2);

enum LaunchAttributeId {
	kAttrIgnore = 0,
	kAttrClusterDimension = 4,
	kAttrClusterScheduling = 5,
	kAttrSerialization = 6,
	kAttrPriority = 8,
	kAttrMemSyncDomain = 10,
	kAttrLaunchCompletionEvent = 12,
	kAttrCarveout = 14
};

struct LaunchAttribute {
	int id;
	char pad[4];
	union {
		char bytes[64];
		struct {
			cudaEvent_t event;
			int flags;
		} completion;
	} value;
};

struct LaunchConfig {
	unsigned grid[3], block[3], shared_bytes;
	cudaStream_t stream;
	LaunchAttribute *attributes;
	unsigned attribute_count;
};

enum PointerAttribute {
	kPtrMemoryType = 2,
	kPtrDevicePointer = 3,
	kPtrHostPointer = 4,
	kPtrSyncMemops = 6,
	kPtrIsManaged = 8,
	kPtrDeviceOrdinal = 9,
	kPtrIpcCapable = 10,
	kPtrRangeStart = 11,
	kPtrRangeSize = 12,
	kPtrMapped = 13,
	kPtrHandleTypes = 14
};

template <class T>
int store(void *out, T value)
{
	memcpy(out, &value, sizeof value);
	return cudaSuccess;
}

// flat_args finds the parameter buffer in the extra list of a launch.
static bool flat_args(void **extra, const void **args, size_t *size)
{
	*args = nullptr;
	*size = 0;
	for (; extra && *extra != kParamEnd; extra += 2) {
		if (extra[0] == kParamBuffer)
			*args = extra[1];
		if (extra[0] == kParamSize)
			*size = *static_cast<size_t *>(extra[1]);
	}
	return *args && *size;
}

} // namespace soft

using namespace soft;

SOFT_API int cuGetErrorString(int error, const char **out) { return store(out, error_text(error)); }
SOFT_API int cuGetErrorName(int error, const char **out) { return store(out, error_name(error)); }

SOFT_API int cuInit(unsigned flags) { return flags == 0 ? devices()->failure.load() : cudaErrorInvalidValue; }
SOFT_API int cuDriverGetVersion(int *version) { return cudaDriverGetVersion(version); }
SOFT_API int cuDeviceGetCount(int *count) { return cudaGetDeviceCount(count); }

SOFT_API int cuDeviceGet(int *device, int ordinal)
{
	if (!devices()->valid(ordinal))
		return cudaErrorInvalidDevice;
	return store(device, ordinal);
}

SOFT_API int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device);
}

SOFT_API int cuDeviceGetUuid(char *uuid, int device)
{
	if (!devices()->valid(device))
		return cudaErrorInvalidDevice;
	softGpuUuid(devices()->gpu(device), uuid);
	return cudaSuccess;
}

// A context is only a device. Its handle is the device's index plus one.
SOFT_API int cuCtxGetCurrent(uintptr_t *context)
{
	return store(context, static_cast<uintptr_t>(current_device() + 1));
}

SOFT_API int cuCtxSetCurrent(uintptr_t context)
{
	if (context == 0)
		return cudaSuccess;
	return cudaSetDevice(static_cast<int>(context - 1));
}

SOFT_API int cuCtxGetDevice(int *device) { return store(device, current_device()); }

// cuDevicePrimaryCtxGetState says whether a device has been used.
SOFT_API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
	if (!devices()->valid(device))
		return cudaErrorInvalidDevice;
	*flags = 0;
	return store(active, static_cast<int>(devices()->existing(device) != nullptr));
}

SOFT_API int cuDevicePrimaryCtxRetain(uintptr_t *context, int device)
{
	if (!devices()->valid(device))
		return cudaErrorInvalidDevice;
	return store(context, static_cast<uintptr_t>(device + 1));
}

SOFT_API int cuMemGetAddressRange(uintptr_t *base, size_t *size, const void *pointer)
{
	Region region = find_region(pointer);
	if (region.size == 0 || !region.on_device())
		return cudaErrorInvalidValue;
	if (base)
		*base = region.base;
	if (size)
		*size = region.size;
	return cudaSuccess;
}

SOFT_API int cuPointerGetAttribute(void *out, int attribute, const void *pointer)
{
	Region region = find_region(pointer);
	if (region.size == 0)
		return cudaErrorInvalidValue;
	const bool managed = region.origin == Origin::kManaged;
	switch (attribute) {
	case kPtrMemoryType:
		return store(out, region.on_device() ? 2u : 1u);
	case kPtrDevicePointer:
	case kPtrHostPointer:
		return store(out, pointer);
	case kPtrSyncMemops:
	case kPtrMapped:
		return store(out, 1);
	case kPtrIsManaged:
		return store(out, managed);
	case kPtrDeviceOrdinal:
		return store(out, region.device);
	// If user buffers could be shared, NCCL would register them with its peers, which the executor does not
	// support.
	case kPtrIpcCapable:
		return store(out, false);
	case kPtrHandleTypes:
		return store(out, 0ull);
	case kPtrRangeStart:
		return store(out, region.base);
	case kPtrRangeSize:
		return store(out, region.size);
	}
	return cudaErrorInvalidValue;
}

SOFT_API int cuLaunchKernelEx(const LaunchConfig *c, cudaFunction_t function, void **params, void **extra)
{
	const void *args;
	size_t size;
	if (params || !flat_args(extra, &args, &size))
		return unsupported("a kernel launch without a parameter buffer");
	if (c->grid[1] != 1 || c->grid[2] != 1 || c->block[1] != 1 || c->block[2] != 1)
		return unsupported("a kernel launch of more than one dimension");
	cudaEvent_t started = nullptr;
	for (unsigned i = 0; i < c->attribute_count; i++) {
		switch (c->attributes[i].id) {
		// These change when or where blocks run, but not their results.
		case kAttrIgnore:
		case kAttrClusterDimension:
		case kAttrClusterScheduling:
		case kAttrSerialization:
		case kAttrPriority:
		case kAttrMemSyncDomain:
		case kAttrCarveout:
			break;
		case kAttrLaunchCompletionEvent:
			started = c->attributes[i].value.completion.event;
			break;
		default:
			return unsupported("an unknown kernel launch attribute");
		}
	}
	return launch(function, c->grid[0], c->block[0], args, size, c->stream, started);
}

SOFT_API int cuLaunchKernel(cudaFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
	unsigned bz, unsigned shared_bytes, cudaStream_t stream, void **params, void **extra)
{
	LaunchConfig c = { { gx, gy, gz }, { bx, by, bz }, shared_bytes, stream, nullptr, 0 };
	return cuLaunchKernelEx(&c, function, params, extra);
}

// No program can compile or load kernels, or divide a GPU. PyTorch links against these functions or looks them up.
NOT_SUPPORTED(cuFuncGetAttribute)
NOT_SUPPORTED(cuFuncSetAttribute)
NOT_SUPPORTED(cuFuncSetCacheConfig)
NOT_SUPPORTED(cuLaunchCooperativeKernel)
NOT_SUPPORTED(cuLinkAddData_v2)
NOT_SUPPORTED(cuLinkComplete)
NOT_SUPPORTED(cuLinkCreate_v2)
NOT_SUPPORTED(cuModuleGetFunction)
NOT_SUPPORTED(cuModuleLoad)
NOT_SUPPORTED(cuModuleLoadData)
NOT_SUPPORTED(cuModuleLoadDataEx)
NOT_SUPPORTED(cuModuleUnload)
NOT_SUPPORTED(cuCtxFromGreenCtx)
NOT_SUPPORTED(cuCtxPopCurrent)
NOT_SUPPORTED(cuCtxPushCurrent)
NOT_SUPPORTED(cuDevResourceGenerateDesc)
NOT_SUPPORTED(cuDevSmResourceSplitByCount)
NOT_SUPPORTED(cuDeviceGetDevResource)
NOT_SUPPORTED(cuGreenCtxCreate)
NOT_SUPPORTED(cuGreenCtxDestroy)
NOT_SUPPORTED(cuMemsetD32Async)
NOT_SUPPORTED(cuStreamWriteValue32)
NOT_SUPPORTED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
NOT_SUPPORTED(cuTensorMapEncodeTiled)

namespace {

struct EntryPoint {
	const char *name;
	void *function;
};

#define ENTRY(name, function) { name, reinterpret_cast<void *>(function) }
#define OWN(name) ENTRY(#name, name)
const EntryPoint kEntryPoints[] = {
	OWN(cuGetErrorString),
	OWN(cuGetErrorName),
	OWN(cuDeviceGet),
	OWN(cuDeviceGetAttribute),
	OWN(cuDeviceGetUuid),
	OWN(cuCtxGetCurrent),
	OWN(cuCtxSetCurrent),
	OWN(cuCtxGetDevice),
	OWN(cuMemGetAddressRange),
	OWN(cuPointerGetAttribute),
	OWN(cuLaunchKernel),
	OWN(cuLaunchKernelEx),
	OWN(cuCtxFromGreenCtx),
	OWN(cuCtxPopCurrent),
	OWN(cuCtxPushCurrent),
	OWN(cuDevResourceGenerateDesc),
	OWN(cuDevSmResourceSplitByCount),
	OWN(cuDeviceGetDevResource),
	OWN(cuGreenCtxCreate),
	OWN(cuGreenCtxDestroy),
	OWN(cuMemsetD32Async),
	OWN(cuStreamWriteValue32),
	ENTRY("cuMemGetAllocationGranularity", mem_get_granularity),
	ENTRY("cuMemCreate", mem_create),
	ENTRY("cuMemRelease", mem_release),
	ENTRY("cuMemRetainAllocationHandle", mem_retain),
	ENTRY("cuMemAddressReserve", mem_address_reserve),
	ENTRY("cuMemAddressFree", mem_address_free),
	ENTRY("cuMemMap", mem_map),
	ENTRY("cuMemUnmap", mem_unmap),
	ENTRY("cuMemSetAccess", mem_set_access),
	ENTRY("cuMemExportToShareableHandle", mem_export),
	ENTRY("cuMemImportFromShareableHandle", mem_import),
	ENTRY("cuMulticastGetGranularity", multicast_get_granularity),
	ENTRY("cuMulticastCreate", multicast_create),
	ENTRY("cuMulticastAddDevice", multicast_add_device),
	ENTRY("cuMulticastBindMem", multicast_bind_mem),
	ENTRY("cuMulticastBindAddr", multicast_bind_addr),
	ENTRY("cuMulticastUnbind", multicast_unbind),
};

void *find_entry_point(const char *symbol)
{
	for (const EntryPoint &e : kEntryPoints) {
		if (strcmp(e.name, symbol) == 0)
			return e.function;
	}
	return nullptr;
}

} // namespace

SOFT_API cudaError_t cudaGetDriverEntryPoint(
	const char *symbol, void **function, unsigned long long, enum cudaDriverEntryPointQueryResult *status)
{
	if (!symbol || !function)
		return set_error(cudaErrorInvalidValue);
	*function = find_entry_point(symbol);
	if (status)
		*status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
	return *function || status ? cudaSuccess : set_error(cudaErrorSymbolNotFound);
}

SOFT_API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned int,
	unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	return cudaGetDriverEntryPoint(symbol, function, flags, status);
}
