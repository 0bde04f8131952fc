// SPDX-License-Identifier: Apache-2.0
//
// Which GPU this process uses, by the CUDA library that NCCL uses. The plugin itself needs no CUDA.
//
// A process can have more than one CUDA: PyTorch brings NVIDIA's, and another NCCL brings the software CUDA. Both have
// functions of the same names. So the software CUDA's functions are looked up in the library of the NCCL that has
// called, and in the libraries that it is linked with.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "glue.h"
#include "internal/transport/slots.h"

// soft_function finds a function of the software CUDA that NCCL uses, which stays loaded as long as NCCL is.
static void *soft_function(const char *name)
{
	void *nccl = net_open_nccl();
	if (nccl == NULL)
		return NULL;
	// NVIDIA's runtime does not have this one.
	void *function = dlsym(nccl, "ddlemuSoftRegisterKernels") == NULL ? NULL : dlsym(nccl, name);
	dlclose(nccl);
	return function;
}

// bus_id writes the PCI bus ID of the GPU that a CUDA's current context uses, by its two functions.
static int bus_id(void *device_of, void *bus_id_of, char *text, size_t size)
{
	int device;
	return device_of != NULL && bus_id_of != NULL && ((int (*)(int *))device_of)(&device) == 0 &&
		((int (*)(char *, int, int))bus_id_of)(text, (int)size, device) == 0;
}

#ifdef DDLEMU_FAULTS
// is_faked says whether the software CUDA stands for a real GPU, whose driver is in the process (internal/shm/fault.c).
static int is_faked(void)
{
	const char *fault = getenv("DDLEMU_FAULT");
	return fault != NULL && strncmp(fault, "gpu ", 4) == 0;
}
#else
static int is_faked(void) { return 0; }
#endif

int net_gpu(char *text, size_t size, int soft)
{
	void *soft_device = soft_function("cudaGetDevice");
	if (soft)
		return bus_id(soft_device, soft_function("cudaDeviceGetPCIBusId"), text, size);
	const int real = soft_device == NULL || is_faked();
	void *driver = real ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (driver == NULL)
		return 0;
	int ok = bus_id(dlsym(driver, "cuCtxGetDevice"), dlsym(driver, "cuDeviceGetPCIBusId"), text, size);
	dlclose(driver);
	return ok;
}

const char *net_soft_kind(void)
{
	const char *(*kind)(void) = (const char *(*)(void))soft_function("ddlemuSoftKind");
	return kind == NULL ? NULL : kind();
}

int net_set_clock(const void *calls)
{
	int (*set)(const void *) = (int (*)(const void *))soft_function("ddlemuSoftSetClock");
	return set == NULL ? -1 : set(calls);
}

int net_set_node(const void *calls)
{
	int (*set)(const void *) = (int (*)(const void *))soft_function("ddlemuSoftSetNode");
	return set == NULL ? -1 : set(calls);
}

int net_set_ledger_calls(const void *calls)
{
	int (*set)(const void *) = (int (*)(const void *))soft_function("ddlemuSoftSetLedger");
	ddlemu_has_slots = set != NULL && set(calls) == 0;
	return ddlemu_has_slots ? 0 : -1;
}

void net_rank_died(int rank)
{
	void (*died)(int) = (void (*)(int))soft_function("ddlemuSoftRankDied");
	if (died != NULL)
		died(rank);
}

int net_gpu_memory(int *fd, void **base, size_t *size)
{
	int (*memory)(int *, void **, size_t *) = (int (*)(int *, void **, size_t *))soft_function("ddlemuSoftMemory");
	return memory == NULL ? -1 : memory(fd, base, size);
}

static int direct, without_ll128;

void net_set_direct(int on) { __atomic_store_n(&direct, on, __ATOMIC_RELEASE); }
int net_direct(void) { return __atomic_load_n(&direct, __ATOMIC_ACQUIRE); }
void net_set_without_ll128(int on) { __atomic_store_n(&without_ll128, on, __ATOMIC_RELEASE); }
int net_without_ll128(void) { return __atomic_load_n(&without_ll128, __ATOMIC_ACQUIRE); }
