// SPDX-License-Identifier: Apache-2.0
// The driver functions that NCCL looks up by name. Other names are "not found": so NCCL does not use stream memory
// operations. Virtual memory functions (cuMem*) are there for multicast (NVLink SHARP); the attribute of a device that
// says that they are supported is 0, so NCCL does not allocate with them elsewhere, unless NVLinks connect several
// nodes. CUresult has the error values of the runtime.
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
namespace {

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

int get_error_string(int error, const char **out) { return store(out, error_text(error)); }
int get_error_name(int error, const char **out) { return store(out, error_name(error)); }

int device_get(int *device, int ordinal)
{
	if (!devices()->valid(ordinal))
		return cudaErrorInvalidDevice;
	return store(device, ordinal);
}

int device_get_attribute(int *value, int attribute, int device)
{
	return cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device);
}

int device_get_uuid(char *uuid, int device)
{
	if (!devices()->valid(device))
		return cudaErrorInvalidDevice;
	softGpuUuid(devices()->gpu(device), uuid);
	return cudaSuccess;
}

// A context is only a device. Its handle is the device's index plus one.
int ctx_get_current(uintptr_t *context) { return store(context, static_cast<uintptr_t>(current_device() + 1)); }

int ctx_set_current(uintptr_t context)
{
	if (context == 0)
		return cudaSuccess;
	return cudaSetDevice(static_cast<int>(context - 1));
}

int ctx_get_device(int *device) { return store(device, current_device()); }

int mem_get_address_range(uintptr_t *base, size_t *size, const void *pointer)
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

int pointer_get_attribute(void *out, int attribute, const void *pointer)
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

// flat_args finds the parameter buffer in the extra list of a launch.
bool flat_args(void **extra, const void **args, size_t *size)
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

int launch_kernel_ex(const LaunchConfig *c, cudaFunction_t function, void **params, void **extra)
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

int launch_kernel(cudaFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
	unsigned shared_bytes, cudaStream_t stream, void **params, void **extra)
{
	LaunchConfig c = { { gx, gy, gz }, { bx, by, bz }, shared_bytes, stream, nullptr, 0 };
	return launch_kernel_ex(&c, function, params, extra);
}

struct EntryPoint {
	const char *name;
	void *function;
};

#define ENTRY(name, function) { name, reinterpret_cast<void *>(function) }
const EntryPoint kEntryPoints[] = {
	ENTRY("cuGetErrorString", get_error_string),
	ENTRY("cuGetErrorName", get_error_name),
	ENTRY("cuDeviceGet", device_get),
	ENTRY("cuDeviceGetAttribute", device_get_attribute),
	ENTRY("cuDeviceGetUuid", device_get_uuid),
	ENTRY("cuCtxGetCurrent", ctx_get_current),
	ENTRY("cuCtxSetCurrent", ctx_set_current),
	ENTRY("cuCtxGetDevice", ctx_get_device),
	ENTRY("cuMemGetAddressRange", mem_get_address_range),
	ENTRY("cuPointerGetAttribute", pointer_get_attribute),
	ENTRY("cuLaunchKernel", launch_kernel),
	ENTRY("cuLaunchKernelEx", launch_kernel_ex),
};

// Only if the GPUs have multicast.
const EntryPoint kMulticastEntryPoints[] = {
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
	if (!softGpuHasMulticast())
		return nullptr;
	for (const EntryPoint &e : kMulticastEntryPoints) {
		if (strcmp(e.name, symbol) == 0)
			return e.function;
	}
	return nullptr;
}

} // namespace
} // namespace soft

using namespace soft;

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
