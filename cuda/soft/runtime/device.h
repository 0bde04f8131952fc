// SPDX-License-Identifier: Apache-2.0
// The software GPUs that this process sees.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

namespace soft {

class Arena;
class Stream;

// One visible software GPU. It is created when it is first used.
struct Device {
	int gpu; // its number among all GPUs of the host, which its name and PCI bus id contain
	std::unique_ptr<Arena> arena; // its memory
	std::shared_ptr<Stream> legacy; // the default stream
	std::atomic<int> sticky{ 0 }; // error of a kernel that failed; every later call returns it
};

// The visible GPUs of this process. Never destroyed: stream workers may run after static destructors.
class Devices {
public:
	Devices();
	int count() const { return static_cast<int>(gpus_.size()); }
	bool valid(int device) const { return device >= 0 && device < count(); }
	// gpu returns the number of a visible device among all GPUs of the host.
	int gpu(int device) const { return gpus_[device]; }
	// device returns a visible device, or nullptr if it cannot be created (no address space, no memfd).
	Device *device(int index);
	// existing returns a device only if it has been used before.
	Device *existing(int index) { return valid(index) ? devices_[index].load(std::memory_order_acquire) : nullptr; }
	cudaError_t sticky(int index);

	// If not cudaSuccess, CUDA cannot be used in this process: DDLEMU_SOFT_GPUS is invalid, or it is a forked
	// child.
	std::atomic<cudaError_t> failure{ cudaSuccess };

private:
	std::vector<int> gpus_;
	std::mutex mu_;
	std::vector<std::atomic<Device *>> devices_;
};

Devices *devices();

// The current device of the calling thread. set_current_device requires a valid index.
int current_device();
void set_current_device(int device);

// visible_gpus parses CUDA_VISIBLE_DEVICES as CUDA does: numbers, or UUIDs or their first characters. The list ends at
// the first entry that is no device. nullptr means all GPUs.
std::vector<int> visible_gpus(const char *value, int gpus);

// host_memory sets the bytes of memory that the host has, and that are available.
void host_memory(size_t *total, size_t *available);

} // namespace soft
