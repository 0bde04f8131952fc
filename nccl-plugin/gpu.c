// SPDX-License-Identifier: Apache-2.0
//
// Which GPU this process uses, by the CUDA library that NCCL has loaded. The plugin itself needs no CUDA.

#include <dlfcn.h>
#include <stdio.h>

#include "glue.h"
#include "internal/transport/slots.h"

// bus_id writes the PCI bus ID of the GPU that the library's current context uses, by the functions of these names. If
// `required` is not NULL, the library must have a symbol of that name.
static int bus_id(const char *library, const char *get_device, const char *get_bus_id, const char *required, char *text,
	size_t size)
{
	void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	if (handle == NULL)
		return 0;
	int (*device_of)(int *) = (int (*)(int *))dlsym(handle, get_device);
	int (*bus_id_of)(char *, int, int) = (int (*)(char *, int, int))dlsym(handle, get_bus_id);
	int device, ok = required == NULL || dlsym(handle, required) != NULL;
	ok = ok && device_of != NULL && bus_id_of != NULL && device_of(&device) == 0 &&
		bus_id_of(text, (int)size, device) == 0;
	dlclose(handle);
	return ok;
}

int net_gpu(char *text, size_t size, int soft)
{
	if (!soft)
		return bus_id("libcuda.so.1", "cuCtxGetDevice", "cuDeviceGetPCIBusId", NULL, text, size);
	// NVIDIA's runtime has the same file name and functions, but not the last symbol.
	return bus_id(
		"libcudart.so.12", "cudaGetDevice", "cudaDeviceGetPCIBusId", "ddlemuSoftRegisterKernels", text, size);
}

// soft_function finds a function of the software CUDA, which stays loaded as long as NCCL is.
static void *soft_function(const char *name)
{
	void *handle = dlopen("libcudart.so.12", RTLD_LAZY | RTLD_NOLOAD);
	if (handle == NULL)
		return NULL;
	void *function = dlsym(handle, name);
	dlclose(handle);
	return function;
}

int net_set_clock(const void *calls)
{
	int (*set)(const void *) = (int (*)(const void *))soft_function("ddlemuSoftSetClock");
	return set == NULL ? -1 : set(calls);
}

int net_set_ledger_calls(const void *calls)
{
	int (*set)(const void *) = (int (*)(const void *))soft_function("ddlemuSoftSetLedger");
	ddlemu_has_slots = set != NULL && set(calls) == 0;
	return ddlemu_has_slots ? 0 : -1;
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
