// SPDX-License-Identifier: Apache-2.0
//
// A job of two ranks that marks its phases by NVTX: before NCCL is there, around collectives, in a library that has
// NVTX's variables for itself (phases_library.cc, argument 1), and in a second thread.

#include <cuda_runtime_api.h>
#include <ddlemu.h>
#include <dlfcn.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

#define CHECK(call) \
	do { \
		int check_result = (int)(call); \
		if (check_result != 0) { \
			fprintf(stderr, "rank %d: %s: %d\n", rank, #call, check_result); \
			_exit(1); \
		} \
	} while (0)

int rank;
ncclComm_t comm;
cudaStream_t stream;
float *data;
constexpr size_t kCount = 1 << 16;

// is_depth says whether NVTX has returned that depth, or that nobody records the ranges.
bool is_depth(int got, int want) { return got == want || got == NVTX_NO_PUSH_POP_TRACKING; }

// compute takes that time on a virtual clock.
void compute(int64_t ns)
{
	if (ddlemu_compute(ns) != 0)
		usleep(ns / 1000);
}

void all_reduce()
{
	CHECK(ncclAllReduce(data, data, kCount, ncclFloat, ncclSum, comm, stream));
	CHECK(cudaStreamSynchronize(stream));
}

// setup is a phase that begins before NCCL loads the net plugin.
void setup(int from, int to)
{
	nvtxRangePushA("before NCCL");
	CHECK(!is_depth(nvtxRangePop(), 0));
	CHECK(!is_depth(nvtxRangePushA("setup"), 0));
	ncclUniqueId id;
	if (rank == 0) {
		CHECK(ncclGetUniqueId(&id));
		CHECK(write(to, &id, sizeof id) != sizeof id);
	} else {
		CHECK(read(from, &id, sizeof id) != sizeof id);
	}
	CHECK(cudaSetDevice(rank));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMalloc((void **)&data, kCount * sizeof(float)));
	CHECK(ncclCommInitRank(&comm, 2, id, rank));
	nvtxRangePop();
}

void step(int n)
{
	nvtxRangePushA(("step " + std::to_string(n)).c_str());
	CHECK(!is_depth(nvtxRangePushA("forward"), 1));
	compute(1000000);
	nvtxRangePop();
	nvtxMarkA("loss");
	nvtxRangePushW(L"r\u00fcckw\u00e4rts");
	all_reduce();
	CHECK(!is_depth(nvtxRangePop(), 1));
	nvtxRangePop();
}

// domains has ranges of a domain that do not nest with ranges of the others, and ranges that overlap.
void domains()
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("loader");
	nvtxEventAttributes_t a = {};
	a.version = NVTX_VERSION;
	a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = nvtxDomainRegisterStringA(domain, "read");
	nvtxRangePushA("outer");
	nvtxDomainRangePushEx(domain, &a);
	compute(1000);
	nvtxRangePop();
	compute(1000);
	nvtxDomainRangePop(domain);
	nvtxRangeId_t first = nvtxRangeStartA("first");
	compute(2000);
	nvtxRangeId_t second = nvtxRangeStartA("second");
	compute(2000);
	std::thread([&] {
		nvtxRangeEnd(first);
		nvtxRangePushA("in a thread");
		nvtxRangePop();
	}).join();
	compute(2000);
	nvtxRangeEnd(second);
}

void run(const char *library, int from, int to)
{
	setup(from, to);
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	CHECK(handle == NULL);
	auto in_library = (void (*)(void (*)()))dlsym(handle, "in_library");
	CHECK(in_library == NULL);
	for (int n = 0; n < 3; n++)
		step(n);
	in_library(all_reduce);
	domains();
	nvtxRangePushA("open");
	all_reduce();
	CHECK(ncclCommDestroy(comm));
}

int main(int, char **argv)
{
	int fds[2];
	CHECK(pipe(fds));
	for (rank = 0; rank < 2; rank++) {
		if (fork() != 0)
			continue;
		setenv("RANK", std::to_string(rank).c_str(), 1);
		setenv("WORLD_SIZE", "2", 1);
		run(argv[1], fds[0], fds[1]);
		exit(0);
	}
	int failed = 0;
	for (int i = 0; i < 2; i++) {
		int status;
		wait(&status);
		failed |= status;
	}
	return failed != 0;
}
