// SPDX-License-Identifier: Apache-2.0
// The number of software GPUs, their PCI bus ids and UUIDs. The runtime and the NVML library share this header, so that
// both name the same devices.
#ifndef DDLEMU_SOFT_GPUS_H
#define DDLEMU_SOFT_GPUS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	kSoftGpuMax = 32, // NCCL's own limit of NVML devices in a process
	kSoftGpuDefault = 8, // as in a usual GPU server
	kSoftGpuFirstBus = 16 // PCI bus number of GPU 0
};

// softGpuCount returns the value of DDLEMU_SOFT_GPUS (0 to 32, default 8), or -1 if it is invalid.
static inline int softGpuCount(void)
{
	const char *text = getenv("DDLEMU_SOFT_GPUS");
	if (!text || !*text)
		return kSoftGpuDefault;
	char *end;
	long n = strtol(text, &end, 10);
	return *end || n < 0 || n > kSoftGpuMax ? -1 : (int)n;
}

// softGpuBusId writes the PCI bus id, "0000:10:00.0" for GPU 0, in at most size bytes with the final zero.
static inline void softGpuBusId(int gpu, char *out, size_t size)
{
	snprintf(out, size, "0000:%02x:00.0", kSoftGpuFirstBus + gpu);
}

// softGpuFromBusId returns the GPU with that PCI bus id ("0000:10:00.0" or "10:00.0", any case), or -1.
static inline int softGpuFromBusId(const char *text)
{
	unsigned domain = 0, bus, device, function = 0;
	if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) {
		domain = 0;
		if (sscanf(text, "%x:%x.%x", &bus, &device, &function) < 2)
			return -1;
	}
	int gpu = (int)bus - kSoftGpuFirstBus;
	return domain || device || function || gpu < 0 || gpu >= softGpuCount() ? -1 : gpu;
}

// softGpuUuid writes the 16 bytes of a GPU's UUID, which is the same in every process on every host.
static inline void softGpuUuid(int gpu, char out[16])
{
	memcpy(out, "ddlemu soft GPU", 15);
	out[15] = (char)gpu;
}

// softGpuUuidText writes the UUID as text, such as "GPU-64646c65-6d75-2073-6f66-742047505500". size is at least 41.
static inline void softGpuUuidText(int gpu, char *out, size_t size)
{
	unsigned char u[16];
	softGpuUuid(gpu, (char *)u);
	snprintf(out, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

#endif
