// SPDX-License-Identifier: Apache-2.0
//
// A rank of a job that tests whether the others survive the death of one. RANK and WORLD_SIZE say which rank it is,
// ID_FILE is the file by which the ranks find each other. Rank DIES ends in the sixth AllReduce as HOW says: by a
// signal (kill), by exit status 7 (exit), by _exit (_exit), or not at all (stay). The others get an error from NCCL,
// make a communicator without it, and go on.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

static int number(const char *variable) { return atoi(getenv(variable)); }

#define CHECK(call) \
	do { \
		int result = (int)(call); \
		if (result != 0) { \
			fprintf(stderr, "rank %d: %s: %d\n", number("RANK"), #call, result); \
			_exit(9); \
		} \
	} while (0)

// connect makes a communicator of so many ranks, whose first one passes the id in a file.
static ncclComm_t connect(int rank, int ranks, const std::string &path)
{
	ncclUniqueId id;
	if (rank == 0) {
		CHECK(ncclGetUniqueId(&id));
		FILE *f = fopen((path + ".new").c_str(), "w");
		CHECK(f == NULL || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) != 0);
		CHECK(rename((path + ".new").c_str(), path.c_str()));
	} else {
		while (access(path.c_str(), F_OK) != 0)
			usleep(10000); // a virtual clock takes a thread that sleeps for so long as idle
		FILE *f = fopen(path.c_str(), "r");
		CHECK(f == NULL || fread(&id, sizeof id, 1, f) != 1 || fclose(f) != 0);
	}
	ncclComm_t comm;
	CHECK(ncclCommInitRank(&comm, ranks, id, rank));
	return comm;
}

// sum adds up ones of all ranks. It returns false if NCCL reports an error.
static bool sum(ncclComm_t comm, int ranks, float *device, cudaStream_t stream)
{
	std::vector<float> host(1 << 16, 1.0f);
	const size_t bytes = host.size() * sizeof host[0];
	CHECK(cudaMemcpy(device, host.data(), bytes, cudaMemcpyHostToDevice));
	if (ncclAllReduce(device, device, host.size(), ncclFloat, ncclSum, comm, stream) != ncclSuccess)
		return false;
	cudaError_t state;
	while ((state = cudaStreamQuery(stream)) == cudaErrorNotReady) {
		ncclResult_t error = ncclSuccess;
		CHECK(ncclCommGetAsyncError(comm, &error));
		if (error != ncclSuccess)
			return false;
		usleep(100);
	}
	CHECK(state);
	CHECK(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost));
	for (float v : host)
		CHECK(v != (float)ranks);
	return true;
}

int main()
{
	const int rank = number("RANK"), ranks = number("WORLD_SIZE"), dies = number("DIES");
	const std::string how = getenv("HOW"), path = getenv("ID_FILE");
	CHECK(cudaSetDevice(getenv("LOCAL_RANK") != NULL ? number("LOCAL_RANK") : 0));
	float *device;
	cudaStream_t stream;
	CHECK(cudaMalloc((void **)&device, sizeof(float) << 16));
	CHECK(cudaStreamCreate(&stream));
	ncclComm_t comm = connect(rank, ranks, path);
	for (int i = 0; i < 10; i++) {
		if (i == 5 && rank == dies && how == "kill")
			raise(SIGKILL);
		if (i == 5 && rank == dies && how == "exit")
			exit(7);
		if (i == 5 && rank == dies && how == "_exit")
			_exit(7);
		if (sum(comm, ranks, device, stream))
			continue;
		fprintf(stderr, "rank %d goes on without rank %d\n", rank, dies);
		CHECK(ncclCommAbort(comm));
		comm = connect(rank - (rank > dies), ranks - 1, path + ".again");
		CHECK(!sum(comm, ranks - 1, device, stream));
		break;
	}
	CHECK(ncclCommDestroy(comm));
	return 0;
}
