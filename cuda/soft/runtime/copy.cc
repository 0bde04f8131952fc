// SPDX-License-Identifier: Apache-2.0
// cudaMemcpy and cudaMemset.
#include <stdlib.h>
#include <string.h>

#include <memory>

#include "arena.h"
#include "device.h"
#include "error.h"
#include "regions.h"
#include "stream_table.h"

namespace soft {
namespace {

// Work of up to this many bytes (about 5 us) is done inline; waking the worker would cost more.
constexpr size_t kInlineBytes = 64 << 10;

enum class MemoryKind { kOutOfRange, kDevice, kPinned, kPageable };

// kind_of returns the kind of memory at one end of a copy. A range beyond the end of its device allocation is
// kOutOfRange.
MemoryKind kind_of(const void *pointer, size_t size)
{
	Region region = find_region(pointer);
	if (region.size == 0)
		return MemoryKind::kPageable;
	if (region.origin == Origin::kMulticast)
		return MemoryKind::kOutOfRange; // only kernels of NCCL use it
	if (!region.contains(reinterpret_cast<uintptr_t>(pointer), size))
		return region.on_device() ? MemoryKind::kOutOfRange : MemoryKind::kPageable;
	return region.on_device() ? MemoryKind::kDevice : MemoryKind::kPinned;
}

bool direction_fits(MemoryKind dst, MemoryKind src, cudaMemcpyKind kind)
{
	// With unified addressing, pinned memory is valid as host memory and as device memory.
	bool dst_device = dst != MemoryKind::kPageable, src_device = src != MemoryKind::kPageable;
	bool dst_host = dst != MemoryKind::kDevice, src_host = src != MemoryKind::kDevice;
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

// reached returns the kind that memory has for a GPU that can access pageable memory.
MemoryKind reached(MemoryKind kind) { return kind == MemoryKind::kPageable ? MemoryKind::kPinned : kind; }

Stream::Kind work_kind(size_t size) { return size <= kInlineBytes ? Stream::Kind::kInline : Stream::Kind::kWorker; }

// copy queues a copy. With wait, the copy is done when it returns.
cudaError_t copy(void *dst, const void *src, size_t size, cudaMemcpyKind kind, cudaStream_t handle, bool wait)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	if (size == 0)
		return cudaSuccess;
	if (!dst || !src)
		return set_error(cudaErrorInvalidValue);
	MemoryKind to = kind_of(dst, size), from = kind_of(src, size);
	if (pageable_access && kind == cudaMemcpyDeviceToDevice)
		to = reached(to), from = reached(from);
	if (to == MemoryKind::kOutOfRange || from == MemoryKind::kOutOfRange)
		return set_error(cudaErrorInvalidValue);
	if (!direction_fits(to, from, kind))
		return set_error(cudaErrorInvalidMemcpyDirection);
	before_push(stream);
	wait = wait || to == MemoryKind::kPageable;
	if (from == MemoryKind::kPageable && !wait) {
		if (size <= kInlineBytes && stream->run_if_idle([=] { memcpy(dst, src, size); }))
			return cudaSuccess;
		// The caller may change or free its source when this returns. Waiting for the stream is not possible:
		// it may wait for something that this thread does later. So copy the source now.
		std::shared_ptr<void> staged(malloc(size), free);
		if (!staged)
			return set_error(cudaErrorMemoryAllocation);
		memcpy(staged.get(), src, size);
		stream->push(work_kind(size), [=] { memcpy(dst, staged.get(), size); });
		return cudaSuccess;
	}
	// A caller that waits copies the data itself, so that no other thread has to be woken.
	stream->push(wait ? Stream::Kind::kInline : work_kind(size), [=] { memmove(dst, src, size); });
	if (wait)
		stream->synchronize();
	return wait ? enter() : cudaSuccess;
}

// set writes the value to memory that is known to CUDA.
void set(void *dst, int value, size_t size)
{
	const Region region = find_region(dst);
	if (value != 0 || !region.on_device() || region.origin == Origin::kImported) {
		memset(dst, value, size);
		return;
	}
	Arena &arena = *devices()->existing(region.device)->arena;
	if (region.origin == Origin::kMapped)
		dst = arena.base() + region.file_offset + (reinterpret_cast<uintptr_t>(dst) - region.base);
	arena.clear(dst, size);
}

// fill queues a fill; wait as for copy.
cudaError_t fill(void *dst, int value, size_t size, cudaStream_t handle, bool wait)
{
	std::shared_ptr<Stream> stream;
	if (cudaError_t err = enter_stream(handle, &stream))
		return err;
	if (size == 0)
		return cudaSuccess;
	MemoryKind to = kind_of(dst, size);
	if (to == MemoryKind::kOutOfRange || to == MemoryKind::kPageable)
		return set_error(cudaErrorInvalidValue);
	before_push(stream);
	stream->push(wait ? Stream::Kind::kInline : work_kind(size), [=] { set(dst, value, size); });
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
	if (!devices()->valid(dst_device) || !devices()->valid(src_device))
		return set_error(cudaErrorInvalidDevice);
	return copy(dst, src, size, cudaMemcpyDeviceToDevice, cudaStreamLegacy, true);
}

SOFT_API cudaError_t cudaMemcpyPeerAsync(
	void *dst, int dst_device, const void *src, int src_device, size_t size, cudaStream_t stream)
{
	if (!devices()->valid(dst_device) || !devices()->valid(src_device))
		return set_error(cudaErrorInvalidDevice);
	return copy(dst, src, size, cudaMemcpyDeviceToDevice, stream, false);
}

// CUDA does not have to wait here. But a GPU is so fast that a program works although it does not order the fill before
// work on another stream. On a CPU it would fail without this wait.
SOFT_API cudaError_t cudaMemset(void *dst, int value, size_t size)
{
	return fill(dst, value, size, cudaStreamLegacy, true);
}

SOFT_API cudaError_t cudaMemsetAsync(void *dst, int value, size_t size, cudaStream_t stream)
{
	return fill(dst, value, size, stream, false);
}

NOT_SUPPORTED(cudaMemcpy2DAsync)
