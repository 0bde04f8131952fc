// SPDX-License-Identifier: Apache-2.0
// Copies and fills.
#include <stdlib.h>
#include <string.h>

#include <memory>

#include "device.h"
#include "error.h"
#include "regions.h"
#include "streams.h"

namespace soft {
namespace {

// Work up to this many bytes (about 5 us) is done by whoever submits it; a thread wake-up costs more.
constexpr size_t kLight = 64 << 10;

enum class Side { kBad, kDevice, kPinned, kPageable };

// side classifies one end of a copy. A range that leaves its allocation is bad.
Side side(const void *pointer, size_t size)
{
	Region region = find_region(pointer);
	if (region.size == 0)
		return Side::kPageable;
	if (!region.holds(reinterpret_cast<uintptr_t>(pointer), size))
		return region.on_device() ? Side::kBad : Side::kPageable;
	return region.on_device() ? Side::kDevice : Side::kPinned;
}

bool direction_fits(Side dst, Side src, cudaMemcpyKind kind)
{
	// Under unified addressing pinned memory counts as either.
	bool dst_device = dst != Side::kPageable, src_device = src != Side::kPageable;
	bool dst_host = dst != Side::kDevice, src_host = src != Side::kDevice;
	switch (kind) {
	case cudaMemcpyHostToHost:
		return dst_host && src_host;
	case cudaMemcpyHostToDevice:
		return dst_device && src_host;
	case cudaMemcpyDeviceToHost:
		return dst_host && src_device;
	case cudaMemcpyDeviceToDevice:
		return dst_device && src_device;
	case cudaMemcpyDefault:
		return true;
	}
	return false;
}

Stream::Kind kind_for(size_t size) { return size <= kLight ? Stream::Kind::kLight : Stream::Kind::kHeavy; }

// copy submits a copy; wait says that the caller wants it done on return.
cudaError_t copy(void *dst, const void *src, size_t size, cudaMemcpyKind kind, cudaStream_t handle, bool wait)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	if (size == 0)
		return cudaSuccess;
	if (!dst || !src)
		return result(cudaErrorInvalidValue);
	Side to = side(dst, size), from = side(src, size);
	if (to == Side::kBad || from == Side::kBad)
		return result(cudaErrorInvalidValue);
	if (!direction_fits(to, from, kind))
		return result(cudaErrorInvalidMemcpyDirection);
	order_before_push(stream);
	wait = wait || to == Side::kPageable;
	if (from == Side::kPageable && !wait) {
		if (size <= kLight && stream->run_if_idle([=] { memcpy(dst, src, size); }))
			return cudaSuccess;
		// The caller may change or free its source as soon as this returns, and the stream may be waiting for
		// something that this very thread does later: so copy the source, don't wait.
		std::shared_ptr<void> staged(malloc(size), free);
		if (!staged)
			return result(cudaErrorMemoryAllocation);
		memcpy(staged.get(), src, size);
		stream->push(kind_for(size), [=] { memcpy(dst, staged.get(), size); });
		return cudaSuccess;
	}
	// A caller that waits might as well copy: no other thread need be woken.
	stream->push(wait ? Stream::Kind::kLight : kind_for(size), [=] { memmove(dst, src, size); });
	if (wait)
		stream->synchronize();
	return wait ? enter() : cudaSuccess;
}

// fill submits a fill; wait as for copy.
cudaError_t fill(void *dst, int value, size_t size, cudaStream_t handle, bool wait)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	if (size == 0)
		return cudaSuccess;
	Side to = side(dst, size);
	if (to == Side::kBad || to == Side::kPageable)
		return result(cudaErrorInvalidValue);
	order_before_push(stream);
	stream->push(wait ? Stream::Kind::kLight : kind_for(size), [=] { memset(dst, value, size); });
	if (wait)
		stream->synchronize();
	return wait ? enter() : cudaSuccess;
}

} // namespace
} // namespace soft

using namespace soft;

SOFT_API cudaError_t cudaMemcpy(void *dst, const void *src, size_t size, enum cudaMemcpyKind kind)
{
	return copy(dst, src, size, kind, cudaStreamLegacy, true);
}

SOFT_API cudaError_t cudaMemcpyAsync(
	void *dst, const void *src, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy(dst, src, size, kind, stream, false);
}

SOFT_API cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device, size_t size)
{
	if (!machine()->valid(dst_device) || !machine()->valid(src_device))
		return result(cudaErrorInvalidDevice);
	return copy(dst, src, size, cudaMemcpyDeviceToDevice, cudaStreamLegacy, true);
}

SOFT_API cudaError_t cudaMemcpyPeerAsync(
	void *dst, int dst_device, const void *src, int src_device, size_t size, cudaStream_t stream)
{
	if (!machine()->valid(dst_device) || !machine()->valid(src_device))
		return result(cudaErrorInvalidDevice);
	return copy(dst, src, size, cudaMemcpyDeviceToDevice, stream, false);
}

// CUDA need not wait here, but a GPU is so fast that programs which forget to order a fill before work on another
// stream get away with it; on a CPU they would not.
SOFT_API cudaError_t cudaMemset(void *dst, int value, size_t size)
{
	return fill(dst, value, size, cudaStreamLegacy, true);
}

SOFT_API cudaError_t cudaMemsetAsync(void *dst, int value, size_t size, cudaStream_t stream)
{
	return fill(dst, value, size, stream, false);
}
