// SPDX-License-Identifier: Apache-2.0
// Memory handles between processes (cudaIpc*). A handle has a range of the owner's memfd.
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "device.h"
#include "error.h"
#include "regions.h"
#include "remote.h"
#include "stream_table.h"

namespace soft {
namespace {

constexpr uint64_t kMagic = 0x6d75636f73656c64;

struct Handle {
	uint64_t magic;
	RemoteRange range;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t), "Handle does not fit into cudaIpcMemHandle_t");

} // namespace
} // namespace soft

using namespace soft;

// ddlemuSoftMemory tells the net plugin where the memory of the calling thread's current GPU is: a memfd, which cannot
// shrink, and its mapping in this process. They stay as long as the process.
SOFT_API int ddlemuSoftMemory(int *fd, void **base, size_t *size)
{
	const Device *d = devices()->failure == cudaSuccess ? devices()->device(current_device()) : nullptr;
	if (!d)
		return -1;
	*fd = d->arena->fd();
	*base = d->arena->base();
	*size = d->arena->span();
	return 0;
}

SOFT_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *pointer)
{
	if (!out)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	Region region = find_region(pointer);
	if (region.size == 0 || region.origin != Origin::kDevice)
		return set_error(cudaErrorInvalidValue);
	const Arena &arena = *devices()->existing(region.device)->arena;
	struct stat st;
	if (fstat(arena.fd(), &st) != 0)
		return set_error(cudaErrorOperatingSystem);
	void *base = reinterpret_cast<void *>(region.base);
	const size_t mapped = round_up(region.size, Arena::kPage);
	Handle h = { kMagic, { getpid(), arena.fd(), st.st_ino, arena.offset(base), mapped } };
	memset(out, 0, sizeof *out);
	memcpy(out, &h, sizeof h);
	return cudaSuccess;
}

SOFT_API cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags)
{
	if (!pointer || flags != cudaIpcMemLazyEnablePeerAccess)
		return set_error(cudaErrorInvalidValue);
	if (cudaError_t err = enter())
		return err;
	Handle h;
	memcpy(&h, &handle, sizeof h);
	if (h.magic != kMagic)
		return set_error(cudaErrorInvalidResourceHandle);
	const RemoteRange &range = h.range;
	if (range.pid == getpid())
		return set_error(cudaErrorDeviceUninitialized); // as in CUDA, not in the process that created it
	if (uintptr_t base = reopen_import(range.inode, range.offset)) {
		*pointer = reinterpret_cast<void *>(base);
		return cudaSuccess;
	}
	void *p = map_remote(range);
	if (!p)
		return set_error(cudaErrorInvalidResourceHandle);
	Region region;
	region.base = reinterpret_cast<uintptr_t>(p);
	region.size = region.mapped = range.size;
	region.origin = Origin::kImported;
	region.device = current_device();
	region.opened = 1;
	region.inode = range.inode;
	region.file_offset = range.offset;
	add_region(region);
	*pointer = p;
	return cudaSuccess;
}

SOFT_API cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
	cudaError_t err = enter();
	Region removed;
	if (!close_import(pointer, &removed))
		return set_error(err ? err : cudaErrorInvalidValue);
	if (removed.size) {
		synchronize_device(removed.device);
		munmap(pointer, removed.mapped);
	}
	return set_error(err);
}

NOT_SUPPORTED(cudaIpcGetEventHandle)
NOT_SUPPORTED(cudaIpcOpenEventHandle)
