// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "application.h"
#include "arena.h"
#include "error.h"
#include "gpus.h"
#include "kind.h"
#include "stream.h"

namespace soft {
namespace {

thread_local int device_of_thread = 0;

std::atomic<Devices *> created{ nullptr };

// A forked child has none of the stream workers. As with CUDA, it cannot use the devices.
void after_fork_in_child()
{
	if (Devices *d = created.load())
		d->failure = cudaErrorInitializationError;
	forget_application();
}

int parse_gpu(const std::string &entry, int gpus)
{
	if (entry.rfind("GPU-", 0) == 0) {
		int found = -1;
		for (int gpu = 0; gpu < gpus; gpu++) {
			char uuid[48];
			softGpuUuidText(gpu, uuid, sizeof uuid);
			if (strncmp(uuid, entry.c_str(), entry.size()) != 0)
				continue;
			if (found >= 0)
				return -1; // ambiguous
			found = gpu;
		}
		return found;
	}
	char *end;
	long n = strtol(entry.c_str(), &end, 10);
	return end == entry.c_str() || *end || n < 0 || n >= gpus ? -1 : static_cast<int>(n);
}

} // namespace

std::vector<int> visible_gpus(const char *value, int gpus)
{
	std::vector<int> out;
	if (!value) {
		for (int gpu = 0; gpu < gpus; gpu++)
			out.push_back(gpu);
		return out;
	}
	const char *p = value;
	while (true) {
		const char *comma = strchr(p, ',');
		std::string entry = comma ? std::string(p, comma) : std::string(p);
		entry.erase(0, std::min(entry.find_first_not_of(' '), entry.size()));
		entry.erase(entry.find_last_not_of(' ') + 1);
		int gpu = parse_gpu(entry, gpus);
		if (gpu < 0)
			return out;
		if (std::find(out.begin(), out.end(), gpu) != out.end())
			return {}; // as in CUDA, a device that is named twice is an error
		out.push_back(gpu);
		if (!comma)
			return out;
		p = comma + 1;
	}
}

Devices::Devices()
{
	int gpus = softGpuCount();
	if (gpus < 0) {
		print_error("DDLEMU_SOFT_GPUS=%s: want a number from 0 to %d", getenv("DDLEMU_SOFT_GPUS"), kSoftGpuMax);
		failure = cudaErrorInitializationError;
	} else {
		gpus_ = visible_gpus(getenv("CUDA_VISIBLE_DEVICES"), gpus);
		if (gpus_.empty())
			failure = cudaErrorNoDevice;
	}
	devices_ = std::vector<std::atomic<Device *>>(gpus_.size());
}

Device *Devices::device(int index)
{
	if (!valid(index))
		return nullptr;
	if (Device *d = existing(index))
		return d;
	std::lock_guard<std::mutex> lock(mu_);
	if (Device *d = existing(index))
		return d;
	auto d = std::make_unique<Device>();
	d->gpu = gpus_[index];
	size_t total, available;
	host_memory(&total, &available);
	d->arena = Arena::make(d->gpu, softGpuHasKind() ? softGpuKind()->memory : total);
	if (!d->arena)
		return nullptr;
	d->legacy = Stream::make(index, 0, 0);
	Device *raw = d.release();
	devices_[index].store(raw, std::memory_order_release);
	return raw;
}

cudaError_t Devices::sticky(int index)
{
	Device *d = existing(index);
	return d ? static_cast<cudaError_t>(d->sticky.load(std::memory_order_relaxed)) : cudaSuccess;
}

Devices *devices()
{
	static Devices *all = [] {
		auto *made = new Devices;
		created = made;
		pthread_atfork(nullptr, nullptr, after_fork_in_child);
		return made;
	}();
	return all;
}

int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }

void host_memory(size_t *total, size_t *available)
{
	*total = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
	*available = *total;
	FILE *f = fopen("/proc/meminfo", "re");
	if (!f)
		return;
	char line[128];
	size_t kib;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %zu", &kib) == 1)
			*available = kib << 10;
	fclose(f);
}

} // namespace soft
