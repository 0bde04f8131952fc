// SPDX-License-Identifier: Apache-2.0
//
// The functions of the CUDA runtime and of NCCL that a rank calls. They are looked up at run time, so that one binary
// runs with a GPU machine's libraries and with the software CUDA. The types are the types of the public ABI, without
// NVIDIA's headers: handles are pointers, enumerations are int.

#ifndef DDLEMU_RANK_API_H
#define DDLEMU_RANK_API_H

#include <stddef.h>
#include <stdint.h>

typedef int cuda_result; // cudaError_t: 0 is success
typedef void *cuda_stream; // cudaStream_t
typedef void *cuda_event; // cudaEvent_t
typedef int nccl_result; // ncclResult_t: 0 is success
typedef void *nccl_comm; // ncclComm_t

enum { CUDA_STREAM_NON_BLOCKING = 1 };
enum { CUDA_EVENT_DISABLE_TIMING = 2 };
enum { CUDA_COPY_HOST_TO_DEVICE = 1, CUDA_COPY_DEVICE_TO_HOST = 2, CUDA_COPY_DEVICE_TO_DEVICE = 3 };
enum { NCCL_SUCCESS = 0, NCCL_UNHANDLED_CUDA_ERROR = 1, NCCL_IN_PROGRESS = 7 };
enum { NCCL_UNIQUE_ID_BYTES = 128 };

// It is passed by value to ncclCommInitRank, so its size is part of the ABI.
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} nccl_unique_id;

struct api {
	cuda_result (*cudaGetDeviceCount)(int *count);
	cuda_result (*cudaSetDevice)(int device);
	cuda_result (*cudaMalloc)(void **ptr, size_t bytes);
	cuda_result (*cudaFree)(void *ptr);
	cuda_result (*cudaMemcpy)(void *dst, const void *src, size_t bytes, int kind);
	cuda_result (*cudaMemcpyAsync)(void *dst, const void *src, size_t bytes, int kind, cuda_stream stream);
	cuda_result (*cudaStreamCreateWithFlags)(cuda_stream *stream, unsigned flags);
	cuda_result (*cudaStreamDestroy)(cuda_stream stream);
	cuda_result (*cudaStreamSynchronize)(cuda_stream stream);
	cuda_result (*cudaStreamWaitEvent)(cuda_stream stream, cuda_event event, unsigned flags);
	cuda_result (*cudaLaunchHostFunc)(cuda_stream stream, void (*function)(void *), void *data);
	cuda_result (*cudaEventCreate)(cuda_event *event);
	cuda_result (*cudaEventCreateWithFlags)(cuda_event *event, unsigned flags);
	cuda_result (*cudaEventSynchronize)(cuda_event event);
	cuda_result (*cudaEventRecord)(cuda_event event, cuda_stream stream);
	cuda_result (*cudaEventElapsedTime)(float *ms, cuda_event start, cuda_event stop);
	cuda_result (*cudaEventDestroy)(cuda_event event);
	const char *(*cudaGetErrorString)(cuda_result result);
	// Of the software CUDA; else NULL. The first three are for a fabric with a virtual clock.
	int (*ddlemuSoftExact)(void); // this thread is the only one that calls CUDA and NCCL
	int64_t (*ddlemuSoftNow)(void); // ns of the virtual clock, or of CLOCK_MONOTONIC
	int (*ddlemuSoftSettle)(void); // waits until nothing is left to happen; not 0: the clock is real
	int (*ddlemuSoftRefuseKernels)(int refuse); // returns how many launches were refused so far
	int (*ddlemu_compute)(int64_t ns); // not 0: the clock is real

	nccl_result (*ncclGetVersion)(int *version);
	nccl_result (*ncclGetUniqueId)(nccl_unique_id *id);
	nccl_result (*ncclCommInitRank)(nccl_comm *comm, int ranks, nccl_unique_id id, int rank);
	nccl_result (*ncclCommDestroy)(nccl_comm comm);
	nccl_result (*ncclCommAbort)(nccl_comm comm);
	nccl_result (*ncclCommGetAsyncError)(nccl_comm comm, nccl_result *error);
	const char *(*ncclGetErrorString)(nccl_result result);
	const char *(*ncclGetLastError)(nccl_comm comm); // NULL before NCCL 2.13
	nccl_result (*ncclAllReduce)(
		const void *send, void *recv, size_t count, int type, int op, nccl_comm, cuda_stream);
	nccl_result (*ncclAllGather)(const void *send, void *recv, size_t count, int type, nccl_comm, cuda_stream);
	nccl_result (*ncclReduceScatter)(
		const void *send, void *recv, size_t count, int type, int op, nccl_comm, cuda_stream);
	nccl_result (*ncclBroadcast)(
		const void *send, void *recv, size_t count, int type, int root, nccl_comm, cuda_stream);
	nccl_result (*ncclReduce)(
		const void *send, void *recv, size_t count, int type, int op, int root, nccl_comm, cuda_stream);
	nccl_result (*ncclSend)(const void *send, size_t count, int type, int peer, nccl_comm, cuda_stream);
	nccl_result (*ncclRecv)(void *recv, size_t count, int type, int peer, nccl_comm, cuda_stream);
	// NULL before NCCL 2.28.
	nccl_result (*ncclGather)(
		const void *send, void *recv, size_t count, int type, int root, nccl_comm, cuda_stream);
	nccl_result (*ncclScatter)(
		const void *send, void *recv, size_t count, int type, int root, nccl_comm, cuda_stream);
	nccl_result (*ncclGroupStart)(void);
	nccl_result (*ncclGroupEnd)(void);

	const char *cudart_path; // the name that dlopen accepted
	const char *nccl_path;
};

// The functions of this process, set by api_load.
extern struct api api;

// Loads the first CUDA runtime and the first NCCL that dlopen accepts from the given names (paths or sonames). The
// runtime is loaded first, so that an NCCL that needs the same soname uses it. Returns 0, or -1 with one line in err.
int api_load(const char *const *cudart, int cudart_count, const char *const *nccl, int nccl_count, char *err,
	size_t err_size);

// Returns the enumerator's name, such as ncclRemoteError.
const char *nccl_result_name(nccl_result result);

#endif
