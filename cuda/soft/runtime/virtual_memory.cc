// SPDX-License-Identifier: Apache-2.0
#include "virtual_memory.h"

#include <cuda_runtime_api.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "arena.h"
#include "device.h"
#include "error.h"
#include "multicast.h"
#include "regions.h"
#include "stream_table.h"

namespace soft {
namespace {

// CU_MEM_HANDLE_TYPE_...
constexpr int kPosixFileDescriptor = 1; // POSIX_FILE_DESCRIPTOR
constexpr int kFabric = 8; // FABRIC

// A handle of the type FABRIC, which has 64 bytes. The file descriptor that GPU memory is exported as is a file with
// one.
struct FabricHandle {
	uint64_t magic;
	RemoteRange range;
	uint64_t multicast; // 1: a multicast object, 0: GPU memory
	char unused[16];
};
constexpr uint64_t kFabricMagic = 0x317266626d656d64; // the last digit is the layout's version
static_assert(sizeof(FabricHandle) == 64, "a FabricHandle is not as large as CUmemFabricHandle");

struct Mapping {
	size_t size;
	std::shared_ptr<MemObject> object;
};

struct Owned {
	std::shared_ptr<MemObject> object;
	int references = 1; // cuMemRelease calls until the handle ends
};

// Never destroyed: NCCL may free memory while the process exits.
struct Table {
	std::mutex mu;
	MemHandle next = 1;
	std::map<MemHandle, Owned> objects;
	std::map<uintptr_t, size_t> reserved; // base -> size
	std::map<uintptr_t, Mapping> mapped; // by base

	std::map<uintptr_t, Mapping>::iterator mapping_at(uintptr_t pointer)
	{
		auto at = mapped.upper_bound(pointer);
		if (at == mapped.begin())
			return mapped.end();
		--at;
		return pointer - at->first < at->second.size ? at : mapped.end();
	}

	bool is_reserved(uintptr_t pointer, size_t size)
	{
		auto next_range = reserved.upper_bound(pointer);
		if (next_range == reserved.begin())
			return false;
		auto range = std::prev(next_range);
		const size_t offset = pointer - range->first;
		return offset <= range->second && size <= range->second - offset;
	}

	// has_mapping says whether something is mapped to one of size addresses from pointer on.
	bool has_mapping(uintptr_t pointer, size_t size)
	{
		auto next = mapped.lower_bound(pointer);
		return mapping_at(pointer) != mapped.end() || (next != mapped.end() && next->first - pointer < size);
	}
};

Table &table()
{
	static auto *t = new Table;
	return *t;
}

char *address(uintptr_t pointer) { return reinterpret_cast<char *>(pointer); }

// map_memory maps size bytes of GPU memory to reserved addresses. They are in the memfd of its owner, at the region's
// file_offset. A forked child does not have them, like all GPU memory.
int map_memory(char *at, size_t size, int fd, Region region)
{
	if (mmap(at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd,
		    static_cast<off_t>(region.file_offset)) == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	madvise(at, size, MADV_DONTFORK);
	madvise(at, size, MADV_DONTDUMP);
	region.base = reinterpret_cast<uintptr_t>(at);
	region.size = region.mapped = size;
	add_region(region);
	return cudaSuccess;
}

} // namespace

MemHandle add_object(std::shared_ptr<MemObject> object)
{
	std::lock_guard<std::mutex> lock(table().mu);
	table().objects[table().next] = { std::move(object) };
	return table().next++;
}

std::shared_ptr<MemObject> find_object(MemHandle handle)
{
	std::lock_guard<std::mutex> lock(table().mu);
	auto at = table().objects.find(handle);
	return at == table().objects.end() ? nullptr : at->second.object;
}

std::shared_ptr<GpuMemory> GpuMemory::make(int device, size_t size)
{
	Device *d = devices()->device(device);
	void *p = d ? d->arena->allocate(size) : nullptr;
	if (!p)
		return nullptr;
	auto m = std::make_shared<GpuMemory>();
	m->device_ = device, m->size_ = size, m->memory_ = p;
	return m;
}

GpuMemory::~GpuMemory()
{
	if (memory_)
		devices()->existing(device_)->arena->release(memory_, size_);
}

int GpuMemory::map(char *at, size_t size)
{
	if (size != size_)
		return unsupported("mapping a part of an allocation (cuMemMap)");
	const Arena &arena = *devices()->existing(device_)->arena;
	Region region;
	region.origin = Origin::kMapped;
	region.device = device_;
	region.file_offset = arena.offset(memory_);
	return map_memory(at, size, arena.fd(), region);
}

void GpuMemory::unmap(char *at)
{
	synchronize_device(device_);
	remove_region(at, Origin::kMapped, Origin::kMapped);
}

int GpuMemory::export_to(int *fd)
{
	FabricHandle h = {};
	h.magic = kFabricMagic;
	if (int err = range(&h.range))
		return err;
	*fd = memfd_create("ddlemu-memory", MFD_CLOEXEC);
	if (*fd < 0)
		return cudaErrorOperatingSystem;
	if (write(*fd, &h, sizeof h) == sizeof h)
		return cudaSuccess;
	close(*fd);
	return cudaErrorOperatingSystem;
}

int GpuMemory::range(RemoteRange *range)
{
	const Arena &arena = *devices()->existing(device_)->arena;
	struct stat st;
	if (fstat(arena.fd(), &st) != 0)
		return cudaErrorOperatingSystem;
	*range = { getpid(), arena.fd(), st.st_ino, arena.offset(memory_), size_ };
	return cudaSuccess;
}

int ImportedMemory::map(char *at, size_t size)
{
	if (size != range_.size)
		return unsupported("mapping a part of an imported allocation (cuMemMap)");
	const int fd = open_remote(range_);
	if (fd < 0)
		return cudaErrorInvalidResourceHandle;
	Region region;
	region.origin = Origin::kImported;
	region.device = current_device();
	region.opened = 1;
	region.file_offset = range_.offset; // no inode: cudaIpcOpenMemHandle does not take it for its own
	const int err = map_memory(at, size, fd, region);
	close(fd);
	return err;
}

void ImportedMemory::unmap(char *at)
{
	synchronize_device(find_region(at).device);
	remove_region(at, Origin::kImported, Origin::kImported);
}

int ImportedMemory::export_to(int *) { return unsupported("exporting imported memory (cuMemExportToShareableHandle)"); }
int ImportedMemory::range(RemoteRange *) { return export_to(nullptr); }

int mem_get_granularity(size_t *granularity, const MemProp *, int)
{
	if (!granularity)
		return cudaErrorInvalidValue;
	*granularity = Arena::kLarge;
	return cudaSuccess;
}

int mem_create(MemHandle *handle, size_t size, const MemProp *prop, unsigned long long flags)
{
	if (!handle || !prop || flags != 0 || size == 0 || size % Arena::kLarge != 0)
		return cudaErrorInvalidValue;
	if (!devices()->valid(prop->location.id))
		return cudaErrorInvalidDevice;
	auto memory = GpuMemory::make(prop->location.id, size);
	if (!memory)
		return cudaErrorMemoryAllocation;
	*handle = add_object(std::move(memory));
	return cudaSuccess;
}

int mem_release(MemHandle handle)
{
	std::shared_ptr<MemObject> last; // destroyed after the lock
	std::lock_guard<std::mutex> lock(table().mu);
	auto at = table().objects.find(handle);
	if (at == table().objects.end())
		return cudaErrorInvalidValue;
	if (--at->second.references > 0)
		return cudaSuccess;
	last = std::move(at->second.object);
	table().objects.erase(at);
	return cudaSuccess;
}

// mem_retain returns the handle of the memory mapped at an address, which then needs one more release.
int mem_retain(MemHandle *handle, uintptr_t pointer)
{
	std::lock_guard<std::mutex> lock(table().mu);
	auto mapping = table().mapping_at(pointer);
	if (!handle || mapping == table().mapped.end())
		return cudaErrorInvalidValue;
	for (auto &[number, owned] : table().objects) {
		if (owned.object != mapping->second.object)
			continue;
		owned.references++;
		*handle = number;
		return cudaSuccess;
	}
	*handle = table().next++;
	table().objects[*handle] = { mapping->second.object };
	return cudaSuccess;
}

int mem_address_reserve(uintptr_t *pointer, size_t size, size_t alignment, uintptr_t, unsigned long long flags)
{
	if (!pointer || size == 0 || size % Arena::kPage != 0 || flags != 0 || (alignment & (alignment - 1)) != 0)
		return cudaErrorInvalidValue;
	const size_t align = alignment > Arena::kLarge ? alignment : Arena::kLarge;
	void *raw = mmap(nullptr, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (raw == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	const uintptr_t lower = reinterpret_cast<uintptr_t>(raw), base = round_up(lower, align);
	if (base > lower)
		munmap(raw, base - lower);
	if (lower + align > base)
		munmap(address(base + size), lower + align - base);
	std::lock_guard<std::mutex> lock(table().mu);
	table().reserved[base] = size;
	*pointer = base;
	return cudaSuccess;
}

int mem_address_free(uintptr_t pointer, size_t size)
{
	std::lock_guard<std::mutex> lock(table().mu);
	auto at = table().reserved.find(pointer);
	if (at == table().reserved.end() || at->second != size)
		return cudaErrorInvalidValue;
	table().reserved.erase(at);
	munmap(address(pointer), size);
	return cudaSuccess;
}

int mem_map(uintptr_t pointer, size_t size, size_t offset, MemHandle handle, unsigned long long flags)
{
	auto object = find_object(handle);
	if (!object || offset != 0 || flags != 0)
		return cudaErrorInvalidValue;
	std::lock_guard<std::mutex> lock(table().mu);
	if (!table().is_reserved(pointer, size) || table().has_mapping(pointer, size))
		return cudaErrorInvalidValue;
	if (int err = object->map(address(pointer), size))
		return err;
	table().mapped[pointer] = { size, std::move(object) };
	return cudaSuccess;
}

int mem_unmap(uintptr_t pointer, size_t size)
{
	Mapping old;
	{
		std::lock_guard<std::mutex> lock(table().mu);
		auto at = table().mapped.find(pointer);
		if (at == table().mapped.end() || at->second.size != size)
			return cudaErrorInvalidValue;
		old = std::move(at->second);
		table().mapped.erase(at);
	}
	old.object->unmap(address(pointer));
	// The addresses stay reserved.
	mmap(address(pointer), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	return cudaSuccess;
}

// All memory is accessible from the time when it is mapped.
int mem_set_access(uintptr_t pointer, size_t size, const void *access, size_t count)
{
	if (!access || count == 0)
		return cudaErrorInvalidValue;
	std::lock_guard<std::mutex> lock(table().mu);
	auto at = table().mapped.find(pointer);
	return at != table().mapped.end() && at->second.size == size ? cudaSuccess : cudaErrorInvalidValue;
}

int mem_export(void *out, MemHandle handle, int type, unsigned long long flags)
{
	auto object = find_object(handle);
	if (!out || !object || flags != 0)
		return cudaErrorInvalidValue;
	if (type == kPosixFileDescriptor)
		return object->export_to(static_cast<int *>(out));
	if (type != kFabric)
		return unsupported("an unknown type of memory handles (cuMemExportToShareableHandle)");
	FabricHandle h = {};
	h.magic = kFabricMagic;
	h.multicast = std::dynamic_pointer_cast<MulticastObject>(object) != nullptr;
	if (int err = object->range(&h.range))
		return err;
	memcpy(out, &h, sizeof h);
	return cudaSuccess;
}

namespace {

std::shared_ptr<MemObject> import_from_fabric(const FabricHandle &h)
{
	if (h.magic != kFabricMagic)
		return nullptr;
	if (!h.multicast)
		return std::make_shared<ImportedMemory>(h.range);
	const int fd = open_remote(h.range);
	if (fd < 0)
		return nullptr;
	auto object = MulticastObject::import_from(fd);
	close(fd);
	return object;
}

std::shared_ptr<MemObject> import_from_file(int fd)
{
	FabricHandle h;
	if (pread(fd, &h, sizeof h, 0) == sizeof h && h.magic == kFabricMagic)
		return import_from_fabric(h);
	return MulticastObject::import_from(fd);
}

} // namespace

int mem_import(MemHandle *handle, void *from, int type)
{
	if (!handle)
		return cudaErrorInvalidValue;
	std::shared_ptr<MemObject> object;
	if (type == kPosixFileDescriptor) {
		object = import_from_file(static_cast<int>(reinterpret_cast<intptr_t>(from)));
		if (!object)
			return unsupported("a file that is no memory of CUDA (cuMemImportFromShareableHandle)");
	} else if (type == kFabric) {
		FabricHandle h = {};
		if (from)
			memcpy(&h, from, sizeof h);
		object = import_from_fabric(h);
		if (!object)
			return cudaErrorInvalidValue;
	} else {
		return unsupported("an unknown type of memory handles (cuMemImportFromShareableHandle)");
	}
	*handle = add_object(std::move(object));
	return cudaSuccess;
}

} // namespace soft
