// SPDX-License-Identifier: Apache-2.0
// Prints what CUDA and NVML show of GPU 1, one figure a line.
#include <cuda_runtime_api.h>

#include <cstdio>

extern "C" {
typedef struct Gpu *Device;
struct PciInfo {
	char legacy[16];
	unsigned domain, bus, device, id, subsystem;
	char bus_id[32];
};
struct FieldValue {
	unsigned field, scope;
	long long timestamp, latency;
	int type, result;
	unsigned value, rest;
};
int nvmlDeviceGetHandleByIndex_v2(unsigned, Device *);
int nvmlDeviceGetName(Device, char *, unsigned);
int nvmlDeviceGetCudaComputeCapability(Device, int *, int *);
int nvmlDeviceGetCurrPcieLinkGeneration(Device, unsigned *);
int nvmlDeviceGetPcieLinkMaxSpeed(Device, unsigned *);
int nvmlDeviceGetNvLinkState(Device, unsigned, int *);
int nvmlDeviceGetNvLinkVersion(Device, unsigned, unsigned *);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device, unsigned, PciInfo *);
int nvmlDeviceGetFieldValues(Device, int, FieldValue *);
int nvmlDeviceGetGpuFabricInfoV(Device, void *);
}

static unsigned field(Device d, unsigned id, unsigned scope = 0)
{
	FieldValue v = {};
	v.field = id, v.scope = scope;
	return nvmlDeviceGetFieldValues(d, 1, &v) == 0 && v.result == 0 ? v.value : 0;
}

int main()
{
	cudaDeviceProp p;
	int optin, major, minor;
	if (cudaGetDeviceProperties(&p, 1) != cudaSuccess ||
		cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 1) != cudaSuccess)
		return 1;
	printf("CUDA: %s, %d.%d, %d SMs, %zu GiB, %d KiB shared\n", p.name, p.major, p.minor, p.multiProcessorCount,
		p.totalGlobalMem >> 30, optin >> 10);
	Device d;
	char name[96];
	unsigned generation, speed;
	if (nvmlDeviceGetHandleByIndex_v2(1, &d) || nvmlDeviceGetName(d, name, sizeof name) ||
		nvmlDeviceGetCudaComputeCapability(d, &major, &minor) ||
		nvmlDeviceGetCurrPcieLinkGeneration(d, &generation) || nvmlDeviceGetPcieLinkMaxSpeed(d, &speed))
		return 1;
	printf("NVML: %s, %d.%d, PCIe %u of %u MT/s\n", name, major, minor, generation, speed);
	int active;
	for (unsigned link = 0; nvmlDeviceGetNvLinkState(d, link, &active) == 0 && active; link++) {
		if (field(d, 165, link) != 1)
			return 1; // NCCL asks in this way from compute capability 9.0 on
		unsigned version;
		PciInfo remote;
		if (nvmlDeviceGetNvLinkVersion(d, link, &version) ||
			nvmlDeviceGetNvLinkRemotePciInfo_v2(d, link, &remote))
			return 1;
		printf("NVLink %u: %s\n", version, remote.bus_id);
	}
	printf("C2C: %u links of %u MB/s\n", field(d, 170), field(d, 172));
	struct {
		unsigned version;
		unsigned char id[16];
		int status;
		unsigned clique;
		unsigned char state;
		unsigned health;
	} fabric = {};
	if (nvmlDeviceGetGpuFabricInfoV(d, &fabric) == 0)
		printf("fabric: state %d, %s, clique %u\n", fabric.state,
			fabric.id[0] ? "of several nodes" : "of a node", fabric.clique);
	return 0;
}
