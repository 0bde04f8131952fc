// SPDX-License-Identifier: Apache-2.0
// Allocation. As in CUDA, freeing waits for the device. The memory is returned to the host at once.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "../exec/ledger.h"
#include "arena.h"
#include "device.h"
#include "error.h"
#include "memory.h"
#include "regions.h"
#include "stream_table.h"

namespace soft {
namespace {

cudaError_t allocate(void **out, size_t size, Origin origin)
{
	if (!out)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	*out = nullptr;
	if (size == 0)
		return cudaSuccess;
	Device *d = devices()->device(current_device());
	void *p = d ? d->arena->allocate(size) : nullptr;
	if (!p)
		return set_error(cudaErrorMemoryAllocation);
	Region region;
	region.base = reinterpret_cast<uintptr_t>(p);
	region.size = size;
	region.origin = origin;
	region.device = current_device();
	add_region(region);
	*out = p;
	return cudaSuccess;
}

void release(const Region &region)
{
	softexec::forget_comms(reinterpret_cast<void *>(region.base), region.size);
	Device *d = devices()->existing(region.device);
	if (d && (region.origin == Origin::kDevice || region.origin == Origin::kManaged))
		d->arena->release(reinterpret_cast<void *>(region.base), region.size);
	if (region.origin == Origin::kImported)
		munmap(reinterpret_cast<void *>(region.base), region.mapped);
}

} // namespace
} // namespace soft

using namespace soft;

SOFT_API cudaError_t cudaMalloc(void **pointer, size_t size) { return allocate(pointer, size, Origin::kDevice); }

SOFT_API cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int flags)
{
	if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
		return set_error(cudaErrorInvalidValue);
	return allocate(pointer, size, Origin::kManaged);
}

SOFT_API cudaError_t cudaFree(void *pointer)
{
	cudaError_t err = enter();
	if (!pointer)
		return err;
	Region region = remove_region(pointer, Origin::kDevice, Origin::kManaged);
	if (region.size == 0)
		return set_error(err ? err : cudaErrorInvalidValue);
	synchronize_device(region.device);
	release(region);
	return set_error(err);
}

// Stream-ordered allocation: memory is allocated at once, and freed when the stream reaches the call. All pools are the
// device's memory.
SOFT_API cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t handle)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	return allocate(pointer, size, Origin::kDevice);
}

SOFT_API cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream)
{
	if (!pool)
		return set_error(cudaErrorInvalidValue);
	return cudaMallocAsync(pointer, size, stream);
}

SOFT_API cudaError_t cudaFreeAsync(void *pointer, cudaStream_t handle)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	if (!pointer)
		return cudaSuccess;
	Region region = find_region(pointer);
	if (region.origin != Origin::kDevice || region.base != reinterpret_cast<uintptr_t>(pointer) || region.size == 0)
		return set_error(cudaErrorInvalidValue);
	before_push(stream);
	stream->push(Stream::Kind::kInline, [pointer] {
		Region r = remove_region(pointer, Origin::kDevice, Origin::kDevice);
		if (r.size)
			release(r);
	});
	return cudaSuccess;
}

SOFT_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
	if (!pool || !props)
		return set_error(cudaErrorInvalidValue);
	*pool = reinterpret_cast<cudaMemPool_t>(new char);
	return cudaSuccess;
}

SOFT_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	if (!pool)
		return set_error(cudaErrorInvalidValue);
	delete reinterpret_cast<char *>(pool);
	return cudaSuccess;
}

SOFT_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr, void *value)
{
	return set_error(pool && value ? cudaSuccess : cudaErrorInvalidValue);
}

NOT_SUPPORTED(cudaDeviceGetDefaultMemPool)
NOT_SUPPORTED(cudaMemPoolGetAttribute)
NOT_SUPPORTED(cudaMemPoolSetAccess)
NOT_SUPPORTED(cudaMemPoolTrimTo)

SOFT_API cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int)
{
	if (!pointer)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	*pointer = nullptr;
	if (size == 0)
		return cudaSuccess;
	Region region;
	region.size = size;
	region.mapped = round_up(size, Arena::kPage);
	region.origin = Origin::kHost;
	region.device = current_device();
	void *p = mmap(nullptr, region.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return set_error(cudaErrorMemoryAllocation);
	region.base = reinterpret_cast<uintptr_t>(p);
	add_region(region);
	*pointer = p;
	return cudaSuccess;
}

SOFT_API cudaError_t cudaMallocHost(void **pointer, size_t size)
{
	return cudaHostAlloc(pointer, size, cudaHostAllocDefault);
}

SOFT_API cudaError_t cudaFreeHost(void *pointer)
{
	cudaError_t err = enter();
	if (!pointer)
		return err;
	Region region = remove_region(pointer, Origin::kHost, Origin::kHost);
	if (region.size == 0)
		return set_error(err ? err : cudaErrorInvalidValue);
	synchronize_device(region.device);
	munmap(pointer, region.mapped);
	return set_error(err);
}

SOFT_API bool ddlemuSoftClearHost(void *pointer, size_t size)
{
	const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer), end = begin + size;
	const Region region = find_region(pointer);
	if (region.origin != Origin::kHost || !region.contains(begin, size))
		return false;
	const uintptr_t first = round_up(begin, Arena::kPage), last = end / Arena::kPage * Arena::kPage;
	if (first >= last || madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED) != 0) {
		memset(pointer, 0, size);
		return true;
	}
	memset(pointer, 0, first - begin);
	memset(reinterpret_cast<void *>(last), 0, end - last);
	return true;
}

SOFT_API cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags)
{
	if (!pointer || size == 0)
		return set_error(cudaErrorInvalidValue);
	if (flags & cudaHostRegisterIoMemory)
		return unsupported("cudaHostRegisterIoMemory");
	if (cudaError_t err = enter())
		return err;
	Region region;
	region.base = reinterpret_cast<uintptr_t>(pointer);
	region.size = size;
	region.origin = Origin::kRegistered;
	region.device = current_device();
	return set_error(add_region(region) ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}

SOFT_API cudaError_t cudaHostUnregister(void *pointer)
{
	cudaError_t err = enter();
	Region region = remove_region(pointer, Origin::kRegistered, Origin::kRegistered);
	if (region.size == 0)
		return set_error(err ? err : cudaErrorHostMemoryNotRegistered);
	synchronize_device(region.device);
	return set_error(err);
}

SOFT_API cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
	if (!device || flags != 0)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	Region region = find_region(host);
	if (region.size == 0 || region.on_device())
		return set_error(cudaErrorInvalidValue);
	*device = host;
	return cudaSuccess;
}

SOFT_API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	if (!free_bytes || !total)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	Device *d = devices()->device(current_device());
	if (!d)
		return set_error(cudaErrorMemoryAllocation);
	size_t host, available;
	host_memory(&host, &available);
	*total = d->arena->capacity();
	*free_bytes = std::min(available, *total - std::min(*total, d->arena->used()));
	return cudaSuccess;
}

SOFT_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *pointer)
{
	if (!attributes)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	Region region = find_region(pointer);
	void *p = const_cast<void *>(pointer);
	if (region.size == 0) {
		// Memory that is unknown to CUDA has no device.
		*attributes = { cudaMemoryTypeUnregistered, -2, pageable_access ? p : nullptr, p };
		return cudaSuccess;
	}
	bool managed = region.origin == Origin::kManaged;
	attributes->type = managed   ? cudaMemoryTypeManaged
		: region.on_device() ? cudaMemoryTypeDevice
				     : cudaMemoryTypeHost;
	attributes->device = region.device;
	attributes->devicePointer = p;
	attributes->hostPointer = managed || !region.on_device() ? p : nullptr;
	return cudaSuccess;
}

SOFT_API cudaError_t cudaDeviceReset(void)
{
	Device *d = devices()->existing(current_device());
	if (!d)
		return set_error(devices()->failure);
	synchronize_device(current_device());
	destroy_streams(current_device());
	for (const Region &region : remove_regions(current_device()))
		release(region);
	d->sticky = 0;
	return cudaSuccess;
}
