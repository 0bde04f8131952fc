// SPDX-License-Identifier: Apache-2.0
#include "multicast.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "../exec/multicast.h"
#include "arena.h"
#include "device.h"
#include "error.h"
#include "kind.h"
#include "regions.h"
#include "stream_table.h"

namespace soft {
namespace {

constexpr uint64_t kMagic = 0x31637474736c6d64; // the last digit is the layout's version

struct Member {
	std::atomic<uint32_t> bound;
	int32_t gpu; // its number among all GPUs of the host
	RemoteRange range;
};

std::shared_ptr<MulticastObject> find_multicast(MemHandle handle)
{
	return std::dynamic_pointer_cast<MulticastObject>(find_object(handle));
}

} // namespace

struct MulticastObject::Shared {
	std::atomic<uint64_t> magic;
	uint32_t devices; // that will be members
	std::atomic<uint32_t> added;
	uint64_t size;
	Member members[kMaxDevices];
};

std::shared_ptr<MulticastObject> MulticastObject::open(int fd)
{
	struct stat st;
	if (fstat(fd, &st) != 0 || st.st_size != sizeof(Shared))
		return nullptr;
	void *p = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return nullptr;
	return std::shared_ptr<MulticastObject>(new MulticastObject(fd, static_cast<Shared *>(p)));
}

std::shared_ptr<MulticastObject> MulticastObject::make(unsigned devices, size_t size)
{
	const int fd = memfd_create("ddlemu-multicast", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return nullptr;
	if (ftruncate(fd, sizeof(Shared)) != 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		close(fd);
		return nullptr;
	}
	auto object = open(fd);
	if (!object) {
		close(fd);
		return nullptr;
	}
	object->shared_->devices = devices;
	object->shared_->size = size;
	object->shared_->magic = kMagic;
	return object;
}

std::shared_ptr<MulticastObject> MulticastObject::import_from(int fd)
{
	const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0)
		return nullptr;
	auto object = open(own);
	if (!object)
		close(own);
	return object && object->shared_->magic == kMagic && object->shared_->devices <= kMaxDevices ? object : nullptr;
}

MulticastObject::~MulticastObject()
{
	forget_members();
	munmap(shared_, sizeof(Shared));
	close(fd_);
}

int MulticastObject::map(char *at, size_t size)
{
	if (size != shared_->size)
		return unsupported("mapping a part of a multicast object (cuMemMap)");
	Region region;
	region.base = reinterpret_cast<uintptr_t>(at);
	region.size = region.mapped = size;
	region.origin = Origin::kMulticast;
	region.device = current_device();
	add_region(region);
	// The mapping keeps the object, and ends before it.
	softexec::add_multicast(at, size, [this] { return members(); });
	return cudaSuccess;
}

void MulticastObject::unmap(char *at)
{
	synchronize_device(find_region(at).device); // a kernel may still read the members' memory
	softexec::remove_multicast(at);
	remove_region(at, Origin::kMulticast, Origin::kMulticast);
	forget_members();
}

int MulticastObject::export_to(int *fd)
{
	*fd = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? cudaErrorOperatingSystem : cudaSuccess;
}

int MulticastObject::range(RemoteRange *range)
{
	struct stat st;
	if (fstat(fd_, &st) != 0)
		return cudaErrorOperatingSystem;
	*range = { getpid(), fd_, st.st_ino, 0, sizeof(Shared) };
	return cudaSuccess;
}

int MulticastObject::add(int device)
{
	if (places_.count(device) != 0)
		return cudaErrorInvalidValue;
	const uint32_t place = shared_->added.fetch_add(1);
	if (place >= shared_->devices)
		return cudaErrorInvalidValue;
	places_[device] = place;
	return cudaSuccess;
}

int MulticastObject::bind(std::shared_ptr<GpuMemory> memory, size_t size)
{
	auto place = places_.find(memory->device());
	if (place == places_.end() || size != memory->size() || size > shared_->size)
		return cudaErrorInvalidValue;
	Member &m = shared_->members[place->second];
	if (int err = memory->range(&m.range))
		return err;
	m.gpu = devices()->gpu(memory->device());
	m.bound.store(1, std::memory_order_release);
	bound_[memory->device()] = std::move(memory);
	return cudaSuccess;
}

int MulticastObject::unbind(int device)
{
	auto place = places_.find(device);
	if (place == places_.end() || bound_.erase(device) == 0)
		return cudaErrorInvalidValue;
	shared_->members[place->second].bound.store(0, std::memory_order_release);
	return cudaSuccess;
}

// members maps the memory of all members, in the order of the GPUs' numbers. Empty: one has none bound, or has ended.
std::vector<char *> MulticastObject::members()
{
	std::vector<const Member *> all;
	for (unsigned i = 0; i < shared_->devices; i++)
		all.push_back(&shared_->members[i]);
	for (const Member *m : all) {
		if (m->bound.load(std::memory_order_acquire) == 0)
			return {};
	}
	std::sort(all.begin(), all.end(), [](const Member *a, const Member *b) { return a->gpu < b->gpu; });
	std::vector<char *> out;
	for (const Member *m : all) {
		void *p = map_remote(m->range);
		if (!p) {
			forget_members();
			return {};
		}
		mapped_.emplace_back(p, m->range.size);
		out.push_back(static_cast<char *>(p));
	}
	return out;
}

void MulticastObject::forget_members()
{
	for (auto &[p, size] : mapped_)
		munmap(p, size);
	mapped_.clear();
}

int multicast_get_granularity(size_t *granularity, const MulticastProp *, int)
{
	return mem_get_granularity(granularity, nullptr, 0);
}

int multicast_create(MemHandle *handle, const MulticastProp *prop)
{
	if (!handle || !prop || prop->devices == 0 || prop->size == 0 || prop->size % Arena::kLarge != 0)
		return cudaErrorInvalidValue;
	if (prop->devices > MulticastObject::kMaxDevices)
		return unsupported("multicast memory of more than 576 GPUs (cuMulticastCreate)");
	if (!softGpuHasMulticast())
		return cudaErrorNotSupported;
	auto object = MulticastObject::make(prop->devices, prop->size);
	if (!object)
		return cudaErrorMemoryAllocation;
	*handle = add_object(std::move(object));
	return cudaSuccess;
}

int multicast_add_device(MemHandle handle, int device)
{
	auto object = find_multicast(handle);
	if (!object)
		return cudaErrorInvalidValue;
	return devices()->valid(device) ? object->add(device) : static_cast<int>(cudaErrorInvalidDevice);
}

int multicast_bind_mem(MemHandle handle, size_t at, MemHandle memory, size_t offset, size_t size, unsigned long long)
{
	auto object = find_multicast(handle);
	auto bound = std::dynamic_pointer_cast<GpuMemory>(find_object(memory));
	if (!object || !bound || at != 0 || offset != 0)
		return cudaErrorInvalidValue;
	return object->bind(std::move(bound), size);
}

int multicast_bind_addr(MemHandle, size_t, uintptr_t, size_t, unsigned long long)
{
	return unsupported("NVLS with registered buffers (cuMulticastBindAddr)");
}

int multicast_unbind(MemHandle handle, int device, size_t at, size_t)
{
	auto object = find_multicast(handle);
	if (!object || at != 0)
		return cudaErrorInvalidValue;
	return object->unbind(device);
}

} // namespace soft
