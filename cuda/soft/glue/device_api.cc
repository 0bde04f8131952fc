// SPDX-License-Identifier: Apache-2.0
// Linked into a relinked NCCL: host functions that the archive keeps in objects of device code and that belong to
// features that don't exist here (the device API: kernels of the user's own that communicate). NCCL can't get as far
// as to call them; if it ever does, it must not look like success.
#include <nccl.h>
#include <stdio.h>

struct ncclDevComm;

ncclResult_t ncclGinResetSignalsAndCounters(struct ncclComm *, ncclDevComm const *)
{
	fputs("ddlemu software CUDA: NCCL's device API (GIN) is not supported\n", stderr);
	return ncclInvalidUsage;
}
