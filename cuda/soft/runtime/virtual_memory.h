// SPDX-License-Identifier: Apache-2.0
// The driver's virtual memory functions (cuMem*), as far as NCCL uses them for NVLink SHARP and for NVLinks between
// nodes: GPU memory and multicast objects, which have handles, and address ranges to which they are mapped. The
// functions return CUresult.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "remote.h"

namespace soft {

using MemHandle = unsigned long long;

// What a handle stands for. It lives as long as a handle, a mapping or a binding of it.
class MemObject {
public:
	virtual ~MemObject() = default;
	// map maps the whole object to reserved addresses.
	virtual int map(char *at, size_t size) = 0;
	virtual void unmap(char *at) = 0;
	// export_to sets *fd to a new file descriptor by which another process can import the object.
	virtual int export_to(int *fd) = 0;
	// range sets *range to the object's part of a memfd of this process, by which a process of another node can
	// import the object (CU_MEM_HANDLE_TYPE_FABRIC).
	virtual int range(RemoteRange *range) = 0;
};

// The handles of this process. find_object returns nullptr if there is no such handle.
MemHandle add_object(std::shared_ptr<MemObject> object);
std::shared_ptr<MemObject> find_object(MemHandle handle);

// GPU memory.
class GpuMemory : public MemObject {
public:
	// make returns size bytes of a visible device, zeroed, or nullptr if they are not free.
	static std::shared_ptr<GpuMemory> make(int device, size_t size);
	~GpuMemory() override;
	int map(char *at, size_t size) override;
	void unmap(char *at) override;
	int export_to(int *fd) override;
	int range(RemoteRange *range) override;
	int device() const { return device_; }
	size_t size() const { return size_; }
	// memory returns its address in the arena of the device.
	void *memory() const { return memory_; }

private:
	int device_ = 0;
	size_t size_ = 0;
	void *memory_ = nullptr;
};

// GPU memory of another process. It cannot be exported again.
class ImportedMemory : public MemObject {
public:
	explicit ImportedMemory(const RemoteRange &range) : range_(range) {}
	int map(char *at, size_t size) override;
	void unmap(char *at) override;
	int export_to(int *fd) override;
	int range(RemoteRange *range) override;

private:
	RemoteRange range_;
};

// The layouts of CUDA's driver.
struct MemLocation {
	int type, id;
};
struct MemProp {
	int type, handle_types;
	MemLocation location;
	void *windows;
	unsigned char flags[8];
};

int mem_get_granularity(size_t *granularity, const MemProp *prop, int option);
int mem_create(MemHandle *handle, size_t size, const MemProp *prop, unsigned long long flags);
int mem_release(MemHandle handle);
int mem_retain(MemHandle *handle, uintptr_t pointer);
int mem_address_reserve(uintptr_t *pointer, size_t size, size_t alignment, uintptr_t address, unsigned long long flags);
int mem_address_free(uintptr_t pointer, size_t size);
int mem_map(uintptr_t pointer, size_t size, size_t offset, MemHandle handle, unsigned long long flags);
int mem_unmap(uintptr_t pointer, size_t size);
int mem_set_access(uintptr_t pointer, size_t size, const void *access, size_t count);
int mem_export(void *out, MemHandle handle, int type, unsigned long long flags);
int mem_import(MemHandle *handle, void *from, int type);

} // namespace soft
