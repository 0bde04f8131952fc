// SPDX-License-Identifier: Apache-2.0
// How many software GPUs there are and what they are called: shared by the runtime and the NVML stand-in, so that
// both name the same devices.
#ifndef DDLEMU_SOFT_GPUS_H
#define DDLEMU_SOFT_GPUS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	kSoftGpuMax = 32, // NCCL's own limit of NVML devices in a process
	kSoftGpuDefault = 8, // as many as a usual GPU server has
	kSoftGpuFirstBus = 16 // PCI bus number of GPU 0
};

// softGpuCount returns the number of GPUs that DDLEMU_SOFT_GPUS asks for (0 to 32, default 8), or -1 if its value
// is no such number.
static inline int softGpuCount(void)
{
	const char *text = getenv("DDLEMU_SOFT_GPUS");
	if (!text || !*text)
		return kSoftGpuDefault;
	char *end;
	long n = strtol(text, &end, 10);
	return *end || n < 0 || n > kSoftGpuMax ? -1 : (int)n;
}

// softGpuBusId writes "0000:10:00.0" for GPU 0; size bytes at most, the closing zero included.
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

// softGpuUuid writes the 16 bytes that identify a GPU; the same in every process of every host.
static inline void softGpuUuid(int gpu, char out[16])
{
	memcpy(out, "ddlemu soft GPU", 15);
	out[15] = (char)gpu;
}

// softGpuUuidText writes "GPU-64646c65-6d75-2073-6f66-742047505500" and such; size must be at least 41.
static inline void softGpuUuidText(int gpu, char *out, size_t size)
{
	unsigned char u[16];
	softGpuUuid(gpu, (char *)u);
	snprintf(out, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
}

#endif
