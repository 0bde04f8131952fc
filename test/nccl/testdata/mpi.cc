// SPDX-License-Identifier: Apache-2.0
// An MPI program: between two collectives the ranks meet in a barrier of MPI, which polls. A broadcast ends earlier on
// its root, so rank 0 waits there while rank 1 still needs virtual time.
#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) \
	do { \
		if (int result = static_cast<int>(call)) { \
			fprintf(stderr, "line %d: %s is %d\n", __LINE__, #call, result); \
			exit(1); \
		} \
	} while (0)

int main(int argc, char **argv)
{
	constexpr size_t kCount = 1 << 18;
	CHECK(MPI_Init(&argc, &argv));
	int rank, ranks;
	CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
	CHECK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
	ncclUniqueId id;
	if (rank == 0)
		CHECK(ncclGetUniqueId(&id));
	CHECK(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD));
	CHECK(cudaSetDevice(rank));
	ncclComm_t comm;
	CHECK(ncclCommInitRank(&comm, ranks, id, rank));
	float *data;
	cudaStream_t stream;
	cudaEvent_t begin, end;
	CHECK(cudaMalloc(reinterpret_cast<void **>(&data), kCount * sizeof(float)));
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaEventRecord(begin, stream));
	for (int i = 0; i < 10; i++) {
		CHECK(ncclBroadcast(data, data, kCount, ncclFloat, 0, comm, stream));
		CHECK(cudaStreamSynchronize(stream));
		CHECK(MPI_Barrier(MPI_COMM_WORLD));
	}
	CHECK(cudaEventRecord(end, stream));
	CHECK(cudaEventSynchronize(end));
	float ms;
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	printf("rank %d: %.0f ns\n", rank, ms * 1e6);
	CHECK(ncclCommDestroy(comm));
	CHECK(MPI_Finalize());
}
