// SPDX-License-Identifier: Apache-2.0
// Multicast objects (cuMulticast*), by which NCCL uses NVLink SHARP. An object is a small shared file in which every
// process notes where the memory is that it binds. A range of addresses to which the object is mapped has no memory:
// the executor finds the members' memory by it (exec/multicast.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "remote.h"
#include "virtual_memory.h"

namespace soft {

// The layout of CUDA's driver.
struct MulticastProp {
	unsigned devices;
	size_t size;
	unsigned long long handle_types, flags;
};

class MulticastObject : public MemObject, public std::enable_shared_from_this<MulticastObject> {
public:
	static constexpr unsigned kMaxDevices = 576; // as many as NCCL takes into a domain

	// make returns nullptr if the host has no memory for it. import_from returns nullptr if the file is no
	// multicast object; it keeps no reference to the descriptor.
	static std::shared_ptr<MulticastObject> make(unsigned devices, size_t size);
	static std::shared_ptr<MulticastObject> import_from(int fd);
	~MulticastObject() override;

	int map(char *at, size_t size) override;
	void unmap(char *at) override;
	int export_to(int *fd) override;
	int range(RemoteRange *range) override;

	// add makes a visible device a member. bind says which memory is its member's, unbind that it is no longer.
	int add(int device);
	int bind(std::shared_ptr<GpuMemory> memory, size_t size);
	int unbind(int device);

private:
	struct Shared;
	MulticastObject(int fd, Shared *shared) : fd_(fd), shared_(shared) {}
	static std::shared_ptr<MulticastObject> open(int fd);
	std::vector<char *> members();
	void forget_members();

	int fd_;
	Shared *shared_;
	std::map<int, unsigned> places_; // of this process's devices, in the shared file
	std::map<int, std::shared_ptr<GpuMemory>> bound_; // by device
	std::vector<std::pair<void *, size_t>> mapped_; // the members' memory
};

int multicast_get_granularity(size_t *granularity, const MulticastProp *prop, int option);
int multicast_create(MemHandle *handle, const MulticastProp *prop);
int multicast_add_device(MemHandle handle, int device);
int multicast_bind_mem(
	MemHandle handle, size_t at, MemHandle memory, size_t offset, size_t size, unsigned long long flags);
int multicast_bind_addr(MemHandle handle, size_t at, uintptr_t address, size_t size, unsigned long long flags);
int multicast_unbind(MemHandle handle, int device, size_t at, size_t size);

} // namespace soft
