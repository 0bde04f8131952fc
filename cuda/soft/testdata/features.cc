// SPDX-License-Identifier: Apache-2.0
// One rank of a check of what programs do with NCCL besides plain collectives: communicators that don't block, splits,
// registered memory, operators of their own, several communicators and streams at once, large groups.
//
//   features RANK RANKS ID_FILE
//
// Exit status: 0 all right, 1 a wrong element, 2 an error.
#include <vector>

#include "rank.h"

// settle waits until a call on a communicator that doesn't block is done, whatever the call itself said.
static void settle(const ncclComm_t &comm, ncclResult_t said)
{
	if (said != ncclInProgress)
		NCCL(said);
	do
		NCCL(ncclCommGetAsyncError(comm, &said));
	while (said == ncclInProgress);
	NCCL(said);
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

static void own_operator(ncclComm_t comm, int size, float *p, size_t count, cudaStream_t stream)
{
	float half = 0.5f;
	ncclRedOp_t op;
	NCCL(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat, ncclScalarHostImmediate, comm));
	fill(p, count, 3);
	NCCL(ncclAllReduce(p, p, count, ncclFloat, op, comm, stream));
	CUDA(cudaStreamSynchronize(stream));
	expect("operator with a host factor", p, count, 1.5f * size);
	NCCL(ncclRedOpDestroy(op, comm));
	// The factor is read on the device, when the kernel runs.
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
	expect("communicator that doesn't block", q, count, static_cast<float>(ranks));

	settle(all, ncclCommSplit(all, rank % 2, rank, &part, &blocking));
	int size;
	NCCL(ncclCommCount(part, &size));
	fill(p, count, 1);
	NCCL(ncclAllReduce(p, p, count, ncclFloat, ncclSum, part, s));
	CUDA(cudaStreamSynchronize(s));
	expect("split", p, count, static_cast<float>(size));
	registered(part, size, s);
	own_operator(part, size, p, count, s);

	// Two communicators on two streams, many collectives in flight on each.
	fill(p, count, 1);
	fill(q, count, 2);
	for (int i = 0; i < 20; i++) {
		NCCL(ncclAllReduce(p, p, count, ncclFloat, ncclAvg, part, s));
		settle(all, ncclAllReduce(q, q, count, ncclFloat, ncclMax, all, t));
	}
	CUDA(cudaDeviceSynchronize());
	expect("first of two at once", p, count, 1);
	expect("second of two at once", q, count, 2);

	NCCL(ncclGroupStart());
	for (int i = 0; i < 50; i++)
		NCCL(ncclAllReduce(p + i * 2000, p + i * 2000, 2000, ncclFloat, ncclSum, part, s));
	NCCL(ncclGroupEnd());
	CUDA(cudaStreamSynchronize(s));
	expect("group of 50", p, count, static_cast<float>(size));

	NCCL(ncclCommDestroy(part));
	settle(all, ncclCommFinalize(all));
	NCCL(ncclCommDestroy(all));
	CUDA(cudaDeviceReset());
	return 0;
}
