// SPDX-License-Identifier: Apache-2.0
//
// A program as a user would write it: two ranks, one process each, AllReduce of 1 Mi floats, three times, and a check
// of every element. SLEEP_MS sleeps before each, LATE_MS only on rank 1. With READY_FILE, rank 1 writes its pid to it
// before the first AllReduce and waits until the file is removed. ROUNDS is the number of communicators, one after the
// other, WORLD_SIZE the number of ranks. With RANK the process is only that rank, and finds the others by ID_FILE. With
// CALLS, each rank prints the mean time of that many more calls, made one after the other.

#include <cuda_runtime_api.h>
#include <nccl.h>
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
	while (access(path, F_OK) == 0)
		usleep(1000);
}

static int number(const char *variable, int otherwise)
{
	return getenv(variable) != NULL ? atoi(getenv(variable)) : otherwise;
}

// print_time prints the mean time of a call on this rank.
static int print_time(float *device, size_t n, int calls, ncclComm_t comm, cudaStream_t stream)
{
	cudaEvent_t start, end;
	float ms;
	CHECK(cudaEventCreate(&start));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaEventRecord(start, stream));
	for (int i = 0; i < calls; i++)
		CHECK(ncclAllReduce(device, device, n, ncclFloat, ncclSum, comm, stream));
	CHECK(cudaEventRecord(end, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaEventElapsedTime(&ms, start, end));
	if (calls > 0)
		printf("a call takes %.3f us\n", 1000 * ms / calls);
	return 0;
}

static int all_reduce(ncclUniqueId id, int rank, int ranks)
{
	ncclComm_t comm;
	CHECK(ncclCommInitRank(&comm, ranks, id, rank));
	const size_t n = number("COUNT", 1 << 20);
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
	CHECK(print_time(device, n, number("CALLS", 0), comm, stream));
	CHECK(cudaFree(device));
	CHECK(cudaStreamDestroy(stream));
	CHECK(ncclCommDestroy(comm));
	return 0;
}

// The unique ids of all rounds are passed from rank 0 to the others in a file.
static int rank_main(int rank, int ranks, int rounds, const std::string &path)
{
	std::vector<ncclUniqueId> ids(rounds);
	if (rank == 0) {
		for (ncclUniqueId &id : ids)
			CHECK(ncclGetUniqueId(&id));
		FILE *f = fopen((path + ".new").c_str(), "w");
		CHECK(f == NULL || fwrite(ids.data(), sizeof ids[0], rounds, f) != (size_t)rounds || fclose(f));
		CHECK(rename((path + ".new").c_str(), path.c_str()));
	} else {
		FILE *f;
		while ((f = fopen(path.c_str(), "r")) == NULL)
			usleep(1000);
		CHECK(fread(ids.data(), sizeof ids[0], rounds, f) != (size_t)rounds);
		fclose(f);
	}
	int version;
	CHECK(ncclGetVersion(&version));
	printf("rank %d of %d: NCCL %d.%d\n", rank, ranks, version / 10000, version / 100 % 100);
	int devices;
	CHECK(cudaGetDeviceCount(&devices));
	CHECK(cudaSetDevice(rank % devices));
	for (const ncclUniqueId &id : ids)
		if (all_reduce(id, rank, ranks) != 0)
			return 1;
	return 0;
}

int main()
{
	const int ranks = number("WORLD_SIZE", 2), rounds = number("ROUNDS", 1);
	if (getenv("RANK") != NULL) // started once per rank
		return rank_main(number("RANK", 0), ranks, rounds, getenv("ID_FILE"));
	char folder[] = "/tmp/allreduce-XXXXXX";
	CHECK(mkdtemp(folder) == NULL);
	const std::string path = std::string(folder) + "/id";
	for (int r = 0; r < ranks; r++) {
		if (fork() != 0)
			continue;
		setenv("RANK", std::to_string(r).c_str(), 1);
		setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
		exit(rank_main(r, ranks, rounds, path));
	}
	int failed = 0;
	for (int r = 0; r < ranks; r++) {
		int status;
		wait(&status);
		failed |= status;
	}
	unlink(path.c_str());
	rmdir(folder);
	if (!failed)
		printf("all right\n");
	return failed != 0;
}
