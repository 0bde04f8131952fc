// SPDX-License-Identifier: Apache-2.0
// One rank of a test of NCCL's other features: nonblocking communicators, splits, registered memory, user-defined
// operators, several communicators and streams at the same time, large groups, a forked child.
//
//   features RANK RANKS ID_FILE
//
// Exit status: 0 success, 1 a wrong element, 2 an error.
#include <sys/wait.h>

#include <vector>

#include "rank.h"

// settle waits until a call on a nonblocking communicator is done. result is the call's result.
static void settle(const ncclComm_t &comm, ncclResult_t result)
{
	if (result != ncclInProgress)
		NCCL(result);
	do
		NCCL(ncclCommGetAsyncError(comm, &result));
	while (result == ncclInProgress);
	NCCL(result);
}

static void expect(const char *what, const float *device, size_t count, float want)
{
	std::vector<float> host(count);
	CUDA(cudaMemcpy(host.data(), device, count * sizeof(float), cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < count; i++) {
		if (host[i] == want)
			continue;
		fprintf(stderr, "rank %d: %s[%zu]: got %g, want %g\n", rank, what, i, host[i], want);
		exit(1);
	}
	printf("rank %d: %s ok\n", rank, what);
}

static void fill(float *device, size_t count, float value)
{
	std::vector<float> host(count, value);
	CUDA(cudaMemcpy(device, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));
}

static void user_operator(ncclComm_t comm, int size, float *p, size_t count, cudaStream_t stream)
{
	float half = 0.5f;
	ncclRedOp_t op;
	NCCL(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, comm));
	fill(p, count, 3);
	NCCL(ncclAllReduce(p, p, count, ncclFloat, op, comm, stream));
	CUDA(cudaStreamSynchronize(stream));
	expect("operator with a host factor", p, count, 1.5f * size);
	NCCL(ncclRedOpDestroy(op, comm));
	// The kernel reads the factor from device memory.
	float *factor;
	CUDA(cudaMalloc(&factor, sizeof(float)));
	fill(factor, 1, 2);
	NCCL(ncclRedOpCreatePreMulSum(&op, factor, ncclFloat, ncclScalarDevice, comm));
	fill(p, count, 3);
	NCCL(ncclAllReduce(p, p, count, ncclFloat, op, comm, stream));
	CUDA(cudaStreamSynchronize(stream));
	expect("operator with a device factor", p, count, 6.0f * size);
	NCCL(ncclRedOpDestroy(op, comm));
	CUDA(cudaFree(factor));
}

static void registered(ncclComm_t comm, int size, cudaStream_t stream)
{
	const size_t count = 100000;
	float *p;
	void *handle = nullptr;
	NCCL(ncclMemAlloc(reinterpret_cast<void **>(&p), count * sizeof(float)));
	NCCL(ncclCommRegister(comm, p, count * sizeof(float), &handle));
	fill(p, count, 1);
	NCCL(ncclAllReduce(p, p, count, ncclFloat, ncclSum, comm, stream));
	CUDA(cudaStreamSynchronize(stream));
	expect("registered memory", p, count, static_cast<float>(size));
	if (handle)
		NCCL(ncclCommDeregister(comm, handle));
	NCCL(ncclMemFree(p));
}

// Two communicators on two streams, with many collectives queued on each.
static void two_communicators(
	ncclComm_t part, float *p, cudaStream_t s, ncclComm_t all, float *q, cudaStream_t t, size_t count)
{
	fill(p, count, 1);
	fill(q, count, 2);
	for (int i = 0; i < 20; i++) {
		NCCL(ncclAllReduce(p, p, count, ncclFloat, ncclAvg, part, s));
		settle(all, ncclAllReduce(q, q, count, ncclFloat, ncclMax, all, t));
	}
	CUDA(cudaDeviceSynchronize());
	expect("first of two at once", p, count, 1);
	expect("second of two at once", q, count, 2);
}

static void large_group(ncclComm_t part, int size, float *p, cudaStream_t s)
{
	NCCL(ncclGroupStart());
	for (int i = 0; i < 50; i++)
		NCCL(ncclAllReduce(p + i * 2000, p + i * 2000, 2000, ncclFloat, ncclSum, part, s));
	NCCL(ncclGroupEnd());
	CUDA(cudaStreamSynchronize(s));
	expect("group of 50", p, 100000, static_cast<float>(size));
}

// forked_child forks a child that ends with its handlers of exit. It has none of NCCL's threads, and must not end those
// of its parent: NCCL 2.29 would abort the parent at its own exit.
static void forked_child()
{
	const pid_t child = fork();
	if (child == 0)
		exit(0);
	int status = -1;
	if (waitpid(child, &status, 0) != child || status != 0) {
		fprintf(stderr, "rank %d: the forked child ended with wait status %d\n", rank, status);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	rank = atoi(argv[1]);
	ranks = atoi(argv[2]);
	CUDA(cudaSetDevice(rank));
	const size_t count = 100000;
	float *p, *q;
	cudaStream_t s, t;
	CUDA(cudaMalloc(&p, count * sizeof(float)));
	CUDA(cudaMalloc(&q, count * sizeof(float)));
	CUDA(cudaStreamCreate(&s));
	CUDA(cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));

	ncclConfig_t config = NCCL_CONFIG_INITIALIZER, blocking = NCCL_CONFIG_INITIALIZER;
	config.blocking = 0;
	blocking.blocking = 1;
	ncclComm_t all, part;
	const ncclUniqueId id = share_id(argv[3]);
	settle(all, ncclCommInitRankConfig(&all, ranks, id, rank, &config));
	fill(q, count, 1);
	settle(all, ncclAllReduce(q, q, count, ncclFloat, ncclSum, all, s));
	CUDA(cudaStreamSynchronize(s));
	expect("nonblocking communicator", q, count, static_cast<float>(ranks));

	settle(all, ncclCommSplit(all, rank % 2, rank, &part, &blocking));
	int size;
	NCCL(ncclCommCount(part, &size));
	fill(p, count, 1);
	NCCL(ncclAllReduce(p, p, count, ncclFloat, ncclSum, part, s));
	CUDA(cudaStreamSynchronize(s));
	expect("split", p, count, static_cast<float>(size));
	registered(part, size, s);
	user_operator(part, size, p, count, s);

	two_communicators(part, p, s, all, q, t, count);
	large_group(part, size, p, s);
	forked_child();
	NCCL(ncclCommDestroy(part));
	settle(all, ncclCommFinalize(all));
	NCCL(ncclCommDestroy(all));
	CUDA(cudaDeviceReset());
	return 0;
}
