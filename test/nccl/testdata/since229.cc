// SPDX-License-Identifier: Apache-2.0
//
// Two ranks, one process each, that call functions which NCCL has since 2.28 and 2.29: they check every element of
// ncclAlltoAll, ncclGather and ncclScatter, register a window, and ask for NCCL's memory. It is built against that
// version's nccl.h and libnccl.so.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#define CHECK(call) \
	do { \
		int result = (int)(call); \
		if (result != 0) { \
			fprintf(stderr, "%s: %d\n", #call, result); \
			return 1; \
		} \
	} while (0)

enum { RANKS = 2, SHARE = 100000 };

// The element that rank sends to peer.
static float element(int rank, int peer, int i) { return rank * 1000.0f + peer * 100.0f + i % 97; }

struct job {
	int rank;
	ncclComm_t comm;
	cudaStream_t stream;
	float *in, *out;
};

// Compares share number at of the output with what rank sent to peer.
static int wrong(const job &j, int at, int rank, int peer)
{
	std::vector<float> got(SHARE);
	CHECK(cudaStreamSynchronize(j.stream));
	CHECK(cudaMemcpy(got.data(), j.out + at * SHARE, SHARE * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < SHARE; i++)
		CHECK(got[i] != element(rank, peer, i));
	return 0;
}

static int calls(const job &j)
{
	CHECK(ncclAlltoAll(j.in, j.out, SHARE, ncclFloat, j.comm, j.stream));
	for (int r = 0; r < RANKS; r++)
		CHECK(wrong(j, r, r, j.rank));
	CHECK(ncclGather(j.in, j.out, SHARE, ncclFloat, 1, j.comm, j.stream));
	for (int r = 0; j.rank == 1 && r < RANKS; r++)
		CHECK(wrong(j, r, r, 0));
	CHECK(ncclScatter(j.in, j.out, SHARE, ncclFloat, 1, j.comm, j.stream));
	CHECK(wrong(j, 0, 1, j.rank));
	ncclWindow_t window;
	CHECK(ncclCommWindowRegister(j.comm, j.in, RANKS * SHARE * sizeof(float), &window, NCCL_WIN_DEFAULT));
	CHECK(ncclCommWindowDeregister(j.comm, window));
	uint64_t bytes = 0;
	CHECK(ncclCommMemStats(j.comm, ncclStatGpuMemTotal, &bytes));
	return 0;
}

static int rank_main(int rank, int from, int to)
{
	ncclUniqueId id;
	if (rank == 0) {
		CHECK(ncclGetUniqueId(&id));
		CHECK(write(to, &id, sizeof id) != sizeof id);
	} else {
		CHECK(read(from, &id, sizeof id) != sizeof id);
	}
	job j = { rank, NULL, NULL, NULL, NULL };
	CHECK(cudaSetDevice(0));
	CHECK(ncclCommInitRank(&j.comm, RANKS, id, rank));
	CHECK(cudaStreamCreate(&j.stream));
	CHECK(cudaMalloc((void **)&j.in, RANKS * SHARE * sizeof(float)));
	CHECK(cudaMalloc((void **)&j.out, RANKS * SHARE * sizeof(float)));
	std::vector<float> host;
	for (int peer = 0; peer < RANKS; peer++)
		for (int i = 0; i < SHARE; i++)
			host.push_back(element(rank, peer, i));
	CHECK(cudaMemcpy(j.in, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(calls(j));
	CHECK(ncclCommDestroy(j.comm));
	int version;
	CHECK(ncclGetVersion(&version));
	printf("rank %d: built for %d, runs %d, all right\n", rank, NCCL_VERSION_CODE, version);
	return 0;
}

int main()
{
	int ends[2], failed = 0;
	CHECK(pipe(ends));
	for (int r = 0; r < RANKS; r++) {
		if (fork() != 0)
			continue;
		setenv("RANK", std::to_string(r).c_str(), 1);
		setenv("WORLD_SIZE", std::to_string(RANKS).c_str(), 1);
		exit(rank_main(r, ends[0], ends[1]));
	}
	for (int r = 0; r < RANKS; r++) {
		int status;
		wait(&status);
		failed |= status;
	}
	return failed != 0;
}
