// SPDX-License-Identifier: Apache-2.0
//
// A program as a user would write it: two ranks, one process each, AllReduce of
// 1 Mi floats, three times, and a check of every element. SLEEP_MS sleeps before
// each, LATE_MS only on rank 1; with READY_FILE rank 1 writes its pid there before
// the first one and sleeps a second.

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#define CHECK(call)                                                           \
	do {                                                                  \
		int result = (int)(call);                                     \
		if (result != 0) {                                            \
			fprintf(stderr, "%s: %d\n", #call, result);           \
			return 1;                                             \
		}                                                             \
	} while (0)

static void sleep_ms(const char *variable)
{
	if (getenv(variable) != NULL)
		usleep(1000 * (useconds_t)atoi(getenv(variable)));
}

static void wait_for_parent(int rank)
{
	const char *path = getenv("READY_FILE");
	if (path == NULL || rank != 1)
		return;
	std::string hidden = std::string(path) + ".new";
	FILE *f = fopen(hidden.c_str(), "w");
	fprintf(f, "%d\n", (int)getpid());
	fclose(f);
	rename(hidden.c_str(), path);
	sleep(1);
}

static int rank_main(int rank, int ranks, int read_fd, int write_fd)
{
	ncclUniqueId id;
	if (rank == 0) {
		CHECK(ncclGetUniqueId(&id));
		for (int i = 1; i < ranks; i++)
			CHECK(write(write_fd, &id, sizeof id) != (ssize_t)sizeof id);
	} else {
		CHECK(read(read_fd, &id, sizeof id) != (ssize_t)sizeof id);
	}
	int version;
	CHECK(ncclGetVersion(&version));
	printf("rank %d of %d: NCCL %d.%d\n", rank, ranks, version / 10000, version / 100 % 100);
	CHECK(cudaSetDevice(rank));
	ncclComm_t comm;
	CHECK(ncclCommInitRank(&comm, ranks, id, rank));
	const size_t n = 1 << 20;
	std::vector<float> host(n, rank + 1.0f), got(n);
	float *device;
	cudaStream_t stream;
	CHECK(cudaMalloc((void **)&device, n * sizeof(float)));
	CHECK(cudaStreamCreate(&stream));
	wait_for_parent(rank);
	for (int i = 0; i < 3; i++) {
		sleep_ms("SLEEP_MS");
		if (rank == 1)
			sleep_ms("LATE_MS");
		CHECK(cudaMemcpy(device, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
		CHECK(ncclAllReduce(device, device, n, ncclFloat, ncclSum, comm, stream));
		CHECK(cudaStreamSynchronize(stream));
	}
	CHECK(cudaMemcpy(got.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost));
	for (float v : got)
		CHECK(v != ranks * (ranks + 1) / 2.0f);
	CHECK(cudaFree(device));
	CHECK(cudaStreamDestroy(stream));
	CHECK(ncclCommDestroy(comm));
	return 0;
}

int main()
{
	const int ranks = 2;
	int fds[2];
	CHECK(pipe(fds));
	for (int r = 0; r < ranks; r++) {
		if (fork() != 0)
			continue;
		setenv("RANK", std::to_string(r).c_str(), 1);
		setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
		exit(rank_main(r, ranks, fds[0], fds[1]));
	}
	int failed = 0;
	for (int r = 0; r < ranks; r++) {
		int status;
		wait(&status);
		failed |= status;
	}
	if (!failed)
		printf("all right\n");
	return failed != 0;
}
