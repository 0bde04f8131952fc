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

// One visible software GPU. Made when it is first used.
struct Device {
	int gpu; // its number among all GPUs of the host; names and PCI bus ids follow it
	std::unique_ptr<Arena> arena; // its memory
	std::shared_ptr<Stream> legacy; // the default stream
	std::atomic<int> sticky{ 0 }; // the error of a kernel that failed; every later call returns it
};

// Everything of this process. Never destroyed: stream workers may outlive main's static destructors.
class Machine {
public:
	Machine();
	int count() const { return static_cast<int>(gpus_.size()); }
	bool valid(int device) const { return device >= 0 && device < count(); }
	// gpu returns the number of a visible device among all of the host's.
	int gpu(int device) const { return gpus_[device]; }
	// device returns the state of a visible device, or nullptr if it can't be made (no address space, no memfd).
	Device *device(int index);
	// existing returns it only if it was used before.
	Device *existing(int index) { return valid(index) ? made_[index].load(std::memory_order_acquire) : nullptr; }
	cudaError_t sticky(int index);

	// Not cudaSuccess: CUDA can't be used in this process (bad DDLEMU_SOFT_GPUS, a forked child).
	std::atomic<cudaError_t> failure{ cudaSuccess };

private:
	std::vector<int> gpus_;
	std::mutex mu_;
	std::vector<std::atomic<Device *>> made_;
};

Machine *machine();

// current_device is the calling thread's; set_current_device wants a valid index.
int current_device();
void set_current_device(int device);

// visible_gpus reads a value of CUDA_VISIBLE_DEVICES as CUDA does: numbers or UUIDs (or their beginnings), cut off
// at the first entry that is no device; nullptr means all.
std::vector<int> visible_gpus(const char *value, int gpus);

// host_memory returns the host's memory in bytes, and what is available of it.
void host_memory(size_t *total, size_t *available);

} // namespace soft
