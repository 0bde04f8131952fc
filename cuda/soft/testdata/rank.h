// SPDX-License-Identifier: Apache-2.0
// The common code of the test programs' ranks.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

static int rank, ranks;

#define CUDA(call) \
	do { \
		cudaError_t e_ = (call); \
		if (e_ != cudaSuccess) { \
			fprintf(stderr, "rank %d: %s: %s\n", rank, #call, cudaGetErrorString(e_)); \
			exit(2); \
		} \
	} while (0)
#define NCCL(call) \
	do { \
		ncclResult_t e_ = (call); \
		if (e_ != ncclSuccess) { \
			fprintf(stderr, "rank %d: %s: %s\n", rank, #call, ncclGetErrorString(e_)); \
			exit(2); \
		} \
	} while (0)

// share_id creates a unique id on rank 0 and passes it to the other ranks through a file.
static inline ncclUniqueId share_id(const std::string &file)
{
	ncclUniqueId id;
	if (rank == 0) {
		NCCL(ncclGetUniqueId(&id));
		FILE *f = fopen((file + ".new").c_str(), "wb");
		if (!f || fwrite(&id, sizeof id, 1, f) != 1 || fclose(f) ||
			rename((file + ".new").c_str(), file.c_str()))
			exit(2);
		return id;
	}
	FILE *f;
	while (!(f = fopen(file.c_str(), "rb")))
		usleep(1000);
	if (fread(&id, sizeof id, 1, f) != 1)
		exit(2);
	fclose(f);
	return id;
}
