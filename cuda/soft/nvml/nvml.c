// SPDX-License-Identifier: Apache-2.0
// NVML for the software GPUs: libnvidia-ml.so.1, without which NCCL does not start. It reports all software GPUs,
// because NVML ignores CUDA_VISIBLE_DEVICES, and no NVLink. It lacks functions that NCCL treats as optional: fabric,
// platform, confidential computing.
#include <string.h>

#include "../runtime/gpus.h"

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
	snprintf(out, size, "ddlemu software GPU %d", number(d));
	return kSuccess;
}

API int nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor)
{
	if (number(d) < 0 || !major || !minor)
		return kInvalidArgument;
	*major = 8;
	*minor = 0;
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

// A PCI Express 4.0 x16 slot, as GPUs of this compute capability have.
API int nvmlDeviceGetPcieLinkMaxSpeed(Device d, unsigned *mbps)
{
	if (number(d) < 0 || !mbps)
		return kInvalidArgument;
	*mbps = 16000;
	return kSuccess;
}
API int nvmlDeviceGetCurrPcieLinkGeneration(Device d, unsigned *generation)
{
	if (number(d) < 0 || !generation)
		return kInvalidArgument;
	*generation = 4;
	return kSuccess;
}
API int nvmlDeviceGetCurrPcieLinkWidth(Device d, unsigned *lanes)
{
	if (number(d) < 0 || !lanes)
		return kInvalidArgument;
	*lanes = 16;
	return kSuccess;
}

API int nvmlDeviceGetNvLinkState(void) { return kNotSupported; }
API int nvmlDeviceGetNvLinkRemotePciInfo(void) { return kNotSupported; }
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return kNotSupported; }
API int nvmlDeviceGetNvLinkCapability(void) { return kNotSupported; }
API int nvmlDeviceGetFieldValues(void) { return kNotSupported; }
