// SPDX-License-Identifier: Apache-2.0
// The memory that is known to CUDA: device memory, pinned host memory, and memory of other processes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace soft {

enum class Origin {
	kDevice, // cudaMalloc and its relatives
	kManaged, // cudaMallocManaged
	kImported, // cudaIpcOpenMemHandle
	kMapped, // cuMemMap: memory of a GPU of this process, at another address
	kMulticast, // cuMemMap: no memory is there (exec/multicast.h)
	kHost, // cudaHostAlloc
	kRegistered, // cudaHostRegister
};

struct Region {
	uintptr_t base = 0;
	size_t size = 0; // as requested
	size_t mapped = 0; // kHost, kImported: bytes of its mapping
	Origin origin = Origin::kDevice;
	int device = 0;
	int opened = 0; // kImported: number of opens not yet closed
	uint64_t inode = 0; // kImported: of the owner's memfd
	uint64_t file_offset = 0; // kImported, kMapped: in that memfd

	bool on_device() const { return origin <= Origin::kMulticast; }
	bool contains(uintptr_t address, size_t length) const
	{
		return address >= base && address - base <= size && length <= size - (address - base);
	}
};

// pageable_access: the GPUs can access all memory of the process, also memory unknown to CUDA (pageable memory). Then
// that has a device pointer, and a copy within a device may be of it. Set before the first call, else false.
extern bool pageable_access;

// add_region fails if the range overlaps a known one.
bool add_region(const Region &region);
// find_region returns the region that contains an address, or one with size 0.
Region find_region(const void *pointer);
// remove_region removes and returns the region that begins at the pointer, if its origin is a or b; else size is 0.
Region remove_region(const void *pointer, Origin a, Origin b);
// remove_regions removes and returns all regions on a device.
std::vector<Region> remove_regions(int device);

// reopen_import finds a region that is already imported, increments opened and returns the base, or 0 if there is none.
// close_import decrements opened. At 0 it removes the region and copies it to *removed. Returns false if the pointer is
// no imported region.
uintptr_t reopen_import(uint64_t inode, uint64_t file_offset);
bool close_import(const void *pointer, Region *removed);

} // namespace soft
