// SPDX-License-Identifier: Apache-2.0
//
// Which GPU this process uses, asked of the CUDA that NCCL has loaded: the plugin
// itself needs none.

#include <dlfcn.h>
#include <stdio.h>

#include "glue.h"

int net_gpu(char *text, size_t size)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	if (driver == NULL)
		return 0;
	int (*context_device)(int *) = (int (*)(int *))dlsym(driver, "cuCtxGetDevice");
	int (*bus_id)(char *, int, int) = (int (*)(char *, int, int))dlsym(driver, "cuDeviceGetPCIBusId");
	int device,
		ok = context_device != NULL && bus_id != NULL && context_device(&device) == 0 &&
		bus_id(text, (int)size, device) == 0;
	dlclose(driver);
	return ok;
}

int net_soft_gpu(char *text, size_t size)
{
	void *runtime = dlopen("libcudart.so.12", RTLD_LAZY | RTLD_NOLOAD);
	if (runtime == NULL)
		return 0;
	int (*get_device)(int *) = (int (*)(int *))dlsym(runtime, "cudaGetDevice");
	int (*bus_id)(char *, int, int) = (int (*)(char *, int, int))dlsym(runtime, "cudaDeviceGetPCIBusId");
	// NVIDIA's runtime has the same name and functions, but not this one.
	int device, soft = dlsym(runtime, "ddlemuSoftSupportsNccl") != NULL;
	int ok = soft && get_device != NULL && bus_id != NULL && get_device(&device) == 0 &&
		bus_id(text, (int)size, device) == 0;
	dlclose(runtime);
	return ok;
}

static int direct, without_ll128;

void net_set_direct(int on) { __atomic_store_n(&direct, on, __ATOMIC_RELEASE); }
int net_direct(void) { return __atomic_load_n(&direct, __ATOMIC_ACQUIRE); }
void net_set_without_ll128(int on) { __atomic_store_n(&without_ll128, on, __ATOMIC_RELEASE); }
int net_without_ll128(void) { return __atomic_load_n(&without_ll128, __ATOMIC_ACQUIRE); }
