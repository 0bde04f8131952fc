// SPDX-License-Identifier: Apache-2.0

#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct api api;

struct symbol {
	const char *name;
	size_t offset;
	int optional;
};

#define SYMBOL(name) { #name, offsetof(struct api, name), 0 }

static const struct symbol cuda_symbols[] = {
	SYMBOL(cudaGetDeviceCount),
	SYMBOL(cudaSetDevice),
	SYMBOL(cudaMalloc),
	SYMBOL(cudaFree),
	SYMBOL(cudaMemcpy),
	SYMBOL(cudaMemcpyAsync),
	SYMBOL(cudaStreamCreateWithFlags),
	SYMBOL(cudaStreamDestroy),
	SYMBOL(cudaStreamSynchronize),
	SYMBOL(cudaStreamWaitEvent),
	SYMBOL(cudaLaunchHostFunc),
	SYMBOL(cudaEventCreate),
	SYMBOL(cudaEventCreateWithFlags),
	SYMBOL(cudaEventSynchronize),
	SYMBOL(cudaEventRecord),
	SYMBOL(cudaEventElapsedTime),
	SYMBOL(cudaEventDestroy),
	SYMBOL(cudaGetErrorString),
	{ "ddlemuSoftExact", offsetof(struct api, ddlemuSoftExact), 1 },
	{ "ddlemuSoftNow", offsetof(struct api, ddlemuSoftNow), 1 },
	{ "ddlemuSoftSettle", offsetof(struct api, ddlemuSoftSettle), 1 },
	{ "ddlemuSoftRefuseKernels", offsetof(struct api, ddlemuSoftRefuseKernels), 1 },
	{ "ddlemu_compute", offsetof(struct api, ddlemu_compute), 1 },
};

static const struct symbol nccl_symbols[] = {
	SYMBOL(ncclGetVersion),
	SYMBOL(ncclGetUniqueId),
	SYMBOL(ncclCommInitRank),
	SYMBOL(ncclCommDestroy),
	SYMBOL(ncclCommAbort),
	SYMBOL(ncclCommGetAsyncError),
	SYMBOL(ncclGetErrorString),
	{ "ncclGetLastError", offsetof(struct api, ncclGetLastError), 1 },
	SYMBOL(ncclAllReduce),
	SYMBOL(ncclAllGather),
	SYMBOL(ncclReduceScatter),
	SYMBOL(ncclBroadcast),
	SYMBOL(ncclReduce),
	SYMBOL(ncclSend),
	SYMBOL(ncclRecv),
	{ "ncclGather", offsetof(struct api, ncclGather), 1 },
	{ "ncclScatter", offsetof(struct api, ncclScatter), 1 },
	SYMBOL(ncclGroupStart),
	SYMBOL(ncclGroupEnd),
};

// Opens the first library of names that dlopen accepts. On failure err has the last reason.
static void *open_first(
	const char *what, const char *const *names, int count, const char **opened, char *err, size_t err_size)
{
	if (count == 0)
		snprintf(err, err_size, "no %s is given", what);
	for (int i = 0; i < count; i++) {
		void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (lib != NULL) {
			*opened = names[i];
			return lib;
		}
		const char *why = dlerror();
		snprintf(err, err_size, "load %s: %s", what, why != NULL ? why : names[i]);
	}
	return NULL;
}

static int resolve(void *lib, const char *path, const struct symbol *symbols, size_t count, char *err, size_t err_size)
{
	for (size_t i = 0; i < count; i++) {
		void *address = dlsym(lib, symbols[i].name);
		if (address == NULL && !symbols[i].optional) {
			snprintf(err, err_size, "%s has no %s: it is too old, or another library", path,
				symbols[i].name);
			return -1;
		}
		memcpy((char *)&api + symbols[i].offset, &address, sizeof(address));
	}
	return 0;
}

int api_load(const char *const *cudart, int cudart_count, const char *const *nccl, int nccl_count, char *err,
	size_t err_size)
{
	void *lib = open_first("the CUDA runtime", cudart, cudart_count, &api.cudart_path, err, err_size);
	if (lib == NULL)
		return -1;
	if (resolve(lib, api.cudart_path, cuda_symbols, sizeof(cuda_symbols) / sizeof(cuda_symbols[0]), err,
		    err_size) != 0)
		return -1;
	lib = open_first("NCCL", nccl, nccl_count, &api.nccl_path, err, err_size);
	if (lib == NULL)
		return -1;
	return resolve(lib, api.nccl_path, nccl_symbols, sizeof(nccl_symbols) / sizeof(nccl_symbols[0]), err, err_size);
}

const char *nccl_result_name(nccl_result result)
{
	static const char *const names[] = {
		"ncclSuccess",
		"ncclUnhandledCudaError",
		"ncclSystemError",
		"ncclInternalError",
		"ncclInvalidArgument",
		"ncclInvalidUsage",
		"ncclRemoteError",
		"ncclInProgress",
	};
	if (result < 0 || (size_t)result >= sizeof(names) / sizeof(names[0]))
		return "an unknown ncclResult_t";
	return names[result];
}
