// SPDX-License-Identifier: Apache-2.0
// Which addresses are memory that CUDA knows: device memory, pinned host memory, memory of other processes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

namespace soft {

enum class Origin {
	kDevice, // cudaMalloc and its relatives
	kManaged, // cudaMallocManaged
	kImported, // cudaIpcOpenMemHandle
	kHost, // cudaHostAlloc
	kRegistered, // cudaHostRegister
};

struct Region {
	uintptr_t base = 0;
	size_t size = 0; // as asked for
	size_t mapped = 0; // what was mapped for it, where that is this region's own
	Origin origin = Origin::kDevice;
	int device = 0;
	int opened = 0; // kImported: how many times
	uint64_t inode = 0; // kImported: which memory,
	uint64_t file_offset = 0; // and where in it

	bool on_device() const { return origin <= Origin::kImported; }
	bool holds(uintptr_t address, size_t length) const
	{
		return address >= base && address - base <= size && length <= size - (address - base);
	}
};

// add_region fails if the range overlaps a known one.
bool add_region(const Region &region);
// find_region returns the region that holds an address, or one with size 0.
Region find_region(const void *pointer);
// take_region removes the region that begins at the pointer if its origin is one of the two; else size is 0.
Region take_region(const void *pointer, Origin a, Origin b);
// take_regions removes and returns everything that was allocated on a device.
std::vector<Region> take_regions(int device);

// reopen_import looks for an opened region of another process's memory and counts one more opening; it returns the
// base, or 0. close_import counts one less; with the last the region is forgotten and returned in gone.
uintptr_t reopen_import(uint64_t inode, uint64_t file_offset);
bool close_import(const void *pointer, Region *gone);

} // namespace soft
