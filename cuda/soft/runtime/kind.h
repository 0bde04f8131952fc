// SPDX-License-Identifier: Apache-2.0
// The kind of the software GPUs: the kind of the fabric that is up, else GPUs of compute capability 8.0 as an A100 has
// it, of no kind. The runtime and the NVML library share this header. Both read the fabric's file, because programs ask
// for the properties of a GPU before NCCL loads the plugin.
#ifndef DDLEMU_SOFT_KIND_H
#define DDLEMU_SOFT_KIND_H

#include "../../../shaper/fabric/state/find.h"
#include "gpus.h"

// softGpuKind returns the kind; its name is "" if the fabric names none or no fabric is up. It stays as it was at the
// first call of the process.
static inline const struct ddlemu_gpu *softGpuKind(void)
{
	static struct ddlemu_gpu kind;
	static int state; // 0: not read, 1: being read, 2: read
	int before = 0;
	if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) == 2)
		return &kind;
	if (!__atomic_compare_exchange_n(&state, &before, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 2)
			usleep(10);
		return &kind;
	}
	struct ddlemu_header h;
	if (ddlemu_read_header(&h) >= 0) // it stays open: see there
		kind = h.gpu;
	__atomic_store_n(&state, 2, __ATOMIC_RELEASE);
	return &kind;
}

static inline int softGpuHasKind(void) { return softGpuKind()->name[0] != '\0'; }

// softGpuCapability returns the compute capability as a number: 90 for 9.0. Without a kind it is from
// DDLEMU_SOFT_CAPABILITY, which is for tests, 0 if that is none.
static inline int softGpuCapability(void)
{
	if (softGpuHasKind())
		return (int)softGpuKind()->capability;
	const char *text = getenv("DDLEMU_SOFT_CAPABILITY");
	unsigned major, minor;
	char after;
	if (!text || !*text)
		return 80;
	return sscanf(text, "%2u.%1u%c", &major, &minor, &after) == 2 ? (int)(10 * major + minor) : 0;
}

// softGpuHasMulticast: from compute capability 9.0 on, GPUs on NVSwitches have multicast memory. Those of no kind are
// on NVSwitches.
static inline int softGpuHasMulticast(void)
{
	return softGpuCapability() >= 90 && (!softGpuHasKind() || softGpuKind()->switched);
}

// softGpuDomain returns the number of the NVLink domain that this process's GPUs share with GPUs of other nodes, -1
// for none. It is there only for a process that asks NCCL for its decisions: the executor has no NVLinks between nodes.
static inline int softGpuDomain(void)
{
	const char *text = getenv("DDLEMU_SOFT_NVLINK_DOMAIN");
	return text && *text && softGpuHasMulticast() ? atoi(text) : -1;
}

// softGpuName writes the name that CUDA and NVML show.
static inline void softGpuName(int gpu, char *out, size_t size)
{
	if (softGpuHasKind())
		snprintf(out, size, "%s", softGpuKind()->product);
	else
		snprintf(out, size, "ddlemu software GPU %d", gpu);
}

// softGpuLinksTo returns the NVLinks from one GPU directly to another one of its node.
static inline int softGpuLinksTo(int gpu, int peer)
{
	const struct ddlemu_gpu *k = softGpuKind();
	const int gpus = (int)k->gpus;
	if (k->switched || gpus < 2 || gpus > DDLEMU_GRAPH_GPUS || gpu / gpus != peer / gpus)
		return 0;
	return k->between[gpu % gpus][peer % gpus];
}

#endif
