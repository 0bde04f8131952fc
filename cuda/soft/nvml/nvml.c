// SPDX-License-Identifier: Apache-2.0
// NVML for the software GPUs: libnvidia-ml.so.1, without which NCCL does not start. It reports all software GPUs,
// because NVML ignores CUDA_VISIBLE_DEVICES. NVLinks, C2C and the fabric information are the fabric's, by its kind of
// GPU; without one there are none. It lacks functions that NCCL treats as optional: platform, confidential computing.
#define _GNU_SOURCE
#include <string.h>

#include "../runtime/gpus.h"
#include "../runtime/kind.h"

#define API __attribute__((visibility("default")))

// NVML's values.
enum { kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6 };
enum { kP2PStatusOk = 0 };

typedef struct Gpu *Device; // the GPU's number plus one, so that no handle is NULL

struct PciInfo {
	char busIdLegacy[16];
	unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
};

struct PciInfoExt {
	unsigned version, domain, bus, device, pciDeviceId, pciSubSystemId, baseClass, subClass;
	char busId[32];
};

static Device handle(int gpu) { return (Device)(long)(gpu + 1); }

static int number(Device d)
{
	int gpu = (int)(long)d - 1;
	return gpu >= 0 && gpu < softGpuCount() ? gpu : -1;
}

API int nvmlInit_v2(void) { return softGpuCount() < 0 ? kInvalidArgument : kSuccess; }
API int nvmlInit(void) { return nvmlInit_v2(); }
API int nvmlShutdown(void) { return kSuccess; }

API const char *nvmlErrorString(int result)
{
	switch (result) {
	case kSuccess:
		return "Success";
	case kUninitialized:
		return "Uninitialized";
	case kInvalidArgument:
		return "Invalid Argument";
	case kNotSupported:
		return "Not Supported";
	case kNotFound:
		return "Not Found";
	default:
		return "Unknown Error";
	}
}

API int nvmlDeviceGetCount_v2(unsigned *count)
{
	int gpus = softGpuCount();
	if (!count || gpus < 0)
		return kInvalidArgument;
	*count = (unsigned)gpus;
	return kSuccess;
}
API int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out)
{
	if (!out || (int)index >= softGpuCount())
		return kInvalidArgument;
	*out = handle((int)index);
	return kSuccess;
}
API int nvmlDeviceGetHandleByIndex(unsigned index, Device *out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

API int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Device *out)
{
	if (!bus_id || !out)
		return kInvalidArgument;
	int gpu = softGpuFromBusId(bus_id);
	if (gpu < 0)
		return kNotFound;
	*out = handle(gpu);
	return kSuccess;
}
API int nvmlDeviceGetHandleByPciBusId(const char *bus_id, Device *out)
{
	return nvmlDeviceGetHandleByPciBusId_v2(bus_id, out);
}

API int nvmlDeviceGetIndex(Device d, unsigned *index)
{
	if (number(d) < 0 || !index)
		return kInvalidArgument;
	*index = (unsigned)number(d);
	return kSuccess;
}

API int nvmlDeviceGetUUID(Device d, char *out, unsigned size)
{
	if (number(d) < 0 || !out || size < 41)
		return kInvalidArgument;
	softGpuUuidText(number(d), out, size);
	return kSuccess;
}

API int nvmlDeviceGetName(Device d, char *out, unsigned size)
{
	if (number(d) < 0 || !out)
		return kInvalidArgument;
	softGpuName(number(d), out, size);
	return kSuccess;
}

API int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	if (!version)
		return kInvalidArgument;
	*version = 12040; // the runtime's
	return kSuccess;
}

// As in a container, the processes on a GPU are not visible.
API int nvmlDeviceGetComputeRunningProcesses(Device d, unsigned *count, void *processes)
{
	(void)processes;
	if (number(d) < 0 || !count)
		return kInvalidArgument;
	*count = 0;
	return kSuccess;
}

API int nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor)
{
	if (number(d) < 0 || !major || !minor)
		return kInvalidArgument;
	if (softGpuCapability() == 0)
		return kNotSupported;
	*major = softGpuCapability() / 10;
	*minor = softGpuCapability() % 10;
	return kSuccess;
}

API int nvmlDeviceGetP2PStatus(Device a, Device b, int capability, int *status)
{
	(void)capability;
	if (number(a) < 0 || number(b) < 0 || !status)
		return kInvalidArgument;
	*status = kP2PStatusOk;
	return kSuccess;
}

API int nvmlDeviceGetPciInfo_v3(Device d, struct PciInfo *out)
{
	int gpu = number(d);
	if (gpu < 0 || !out)
		return kInvalidArgument;
	memset(out, 0, sizeof *out);
	out->bus = (unsigned)(kSoftGpuFirstBus + gpu);
	softGpuBusId(gpu, out->busIdLegacy, sizeof out->busIdLegacy);
	snprintf(out->busId, sizeof out->busId, "00000000:%02x:00.0", out->bus);
	return kSuccess;
}

API int nvmlDeviceGetPciInfoExt(Device d, struct PciInfoExt *out)
{
	struct PciInfo info;
	if (!out || nvmlDeviceGetPciInfo_v3(d, &info) != kSuccess)
		return kInvalidArgument;
	const unsigned version = out->version;
	memset(out, 0, sizeof *out);
	out->version = version;
	out->bus = info.bus;
	out->baseClass = 3; // display controller
	out->subClass = 2; // 3D
	memcpy(out->busId, info.busId, sizeof out->busId);
	return kSuccess;
}

// The slot of a GPU of no kind is PCI Express 4.0 x16, as an A100 has it.
static unsigned generation_of_slot(void) { return softGpuHasKind() ? softGpuKind()->pcie_generation : 4; }

API int nvmlDeviceGetPcieLinkMaxSpeed(Device d, unsigned *mbps)
{
	if (number(d) < 0 || !mbps)
		return kInvalidArgument;
	*mbps = 8000u << (generation_of_slot() - 3); // of one lane, in millions of transfers per second
	return kSuccess;
}
API int nvmlDeviceGetCurrPcieLinkGeneration(Device d, unsigned *generation)
{
	if (number(d) < 0 || !generation)
		return kInvalidArgument;
	*generation = generation_of_slot();
	return kSuccess;
}
API int nvmlDeviceGetCurrPcieLinkWidth(Device d, unsigned *lanes)
{
	if (number(d) < 0 || !lanes)
		return kInvalidArgument;
	*lanes = softGpuHasKind() ? softGpuKind()->pcie_lanes : 16;
	return kSuccess;
}

// NVML's kinds of devices at the other end of an NVLink, and its bus id of a device that is not visible, as NVSwitches
// are to virtual machines. NCCL takes that for an NVSwitch.
enum { kRemoteGpu = 0, kRemoteSwitch = 2 };
#define INVISIBLE "fffffff:ffff:ff"

// peer_of returns the GPU at the other end of a GPU's NVLink: itself for an NVSwitch, -1 if it has no such link.
static int peer_of(Device d, unsigned link)
{
	const struct ddlemu_gpu *k = softGpuKind();
	const int gpu = number(d);
	if (gpu < 0 || link >= k->nvlinks)
		return -1;
	if (k->switched)
		return gpu;
	for (int peer = 0; peer < softGpuCount(); peer++) {
		const unsigned links = (unsigned)softGpuLinksTo(gpu, peer);
		if (link < links)
			return peer;
		link -= links;
	}
	return -1;
}

API int nvmlDeviceGetNvLinkState(Device d, unsigned link, int *active)
{
	if (!active || number(d) < 0)
		return kInvalidArgument;
	if (peer_of(d, link) < 0)
		return kNotSupported;
	*active = 1;
	return kSuccess;
}

API int nvmlDeviceGetNvLinkVersion(Device d, unsigned link, unsigned *version)
{
	if (!version || peer_of(d, link) < 0)
		return kNotSupported;
	*version = softGpuKind()->nvlink_generation;
	return kSuccess;
}

API int nvmlDeviceGetNvLinkCapability(Device d, unsigned link, int capability, unsigned *result)
{
	(void)capability; // of those that NVML has, NCCL asks for peer-to-peer
	if (!result || peer_of(d, link) < 0)
		return kNotSupported;
	*result = 1;
	return kSuccess;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(Device d, unsigned link, int *type)
{
	if (!type || peer_of(d, link) < 0)
		return kNotSupported;
	*type = softGpuKind()->switched ? kRemoteSwitch : kRemoteGpu;
	return kSuccess;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device d, unsigned link, struct PciInfo *out)
{
	const int peer = peer_of(d, link);
	if (!out || peer < 0)
		return kNotSupported;
	if (!softGpuKind()->switched)
		return nvmlDeviceGetPciInfo_v3(handle(peer), out);
	memset(out, 0, sizeof *out);
	snprintf(out->busId, sizeof out->busId, INVISIBLE);
	snprintf(out->busIdLegacy, sizeof out->busIdLegacy, INVISIBLE); // NCCL reads this one
	return kSuccess;
}
API int nvmlDeviceGetNvLinkRemotePciInfo(Device d, unsigned link, struct PciInfo *out)
{
	return nvmlDeviceGetNvLinkRemotePciInfo_v2(d, link, out);
}

// The fields of NVLinks and NVLink-C2C, and one value of nvmlDeviceGetFieldValues.
enum { kNvLinkState = 165, kC2CLinkCount = 170, kC2CLinkStatus = 171, kC2CLinkMaxBandwidth = 172 };
enum { kUnsignedInt = 1 };
struct FieldValue {
	unsigned field, scope;
	long long timestamp, latency_us;
	int type, result;
	union {
		double d;
		unsigned ui;
		unsigned long long ull;
	} value;
};

API int nvmlDeviceGetFieldValues(Device d, int count, struct FieldValue *values)
{
	const struct ddlemu_gpu *k = softGpuKind();
	if (number(d) < 0 || !values)
		return kInvalidArgument;
	if (!softGpuHasKind())
		return kNotSupported;
	for (int i = 0; i < count; i++) {
		struct FieldValue *v = &values[i];
		const int has = k->c2c_links > 0 && (v->field == kC2CLinkCount || v->scope < k->c2c_links);
		v->type = kUnsignedInt;
		v->result = kSuccess;
		if (v->field == kNvLinkState && peer_of(d, v->scope) >= 0)
			v->value.ui = 1;
		else if (has && v->field == kC2CLinkCount)
			v->value.ui = k->c2c_links;
		else if (has && v->field == kC2CLinkStatus)
			v->value.ui = 1;
		else if (has && v->field == kC2CLinkMaxBandwidth)
			v->value.ui = k->c2c_mbps;
		else
			v->result = kNotSupported;
	}
	return kSuccess;
}

// The fabric of NVSwitches that a GPU is in. Fabrics of several nodes have an id, fabrics of one node have none. The
// GPUs that NVLinks connect, a domain, are a clique.
enum { kFabricCompleted = 3 };
struct FabricInfo {
	unsigned char id[16];
	int status;
	unsigned clique;
	unsigned char state;
};
struct FabricInfoV {
	unsigned version;
	unsigned char id[16];
	int status;
	unsigned clique;
	unsigned char state;
	unsigned health;
};

static int in_fabric(Device d)
{
	const struct ddlemu_gpu *k = softGpuKind();
	return number(d) >= 0 && k->switched && k->capability >= 90;
}

API int nvmlDeviceGetGpuFabricInfoV(Device d, struct FabricInfoV *out)
{
	if (!out || !in_fabric(d))
		return kNotSupported;
	const unsigned version = out->version;
	memset(out, 0, sizeof *out);
	out->version = version;
	out->state = kFabricCompleted;
	if (softGpuKind()->nvlink_domain)
		memcpy(out->id, "ddlemu NVLinks", 14);
	if (softGpuDomain() >= 0)
		out->clique = (unsigned)softGpuDomain();
	return kSuccess;
}

API int nvmlDeviceGetGpuFabricInfo(Device d, struct FabricInfo *out)
{
	struct FabricInfoV info = { 0 };
	const int result = nvmlDeviceGetGpuFabricInfoV(d, &info);
	if (!out || result != kSuccess)
		return kNotSupported;
	memset(out, 0, sizeof *out);
	memcpy(out->id, info.id, sizeof out->id);
	out->clique = info.clique;
	out->state = info.state;
	return kSuccess;
}
