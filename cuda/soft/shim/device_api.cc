// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: host functions of its device API (users' kernels that communicate), which the software CUDA does
// not support. They are in an object with device code, which relinking leaves out. NCCL does not call them here; if it
// did, they would return an error.
#include <nccl.h>
#include <stdio.h>

struct ncclDevComm;

ncclResult_t ncclGinResetSignalsAndCounters(struct ncclComm *, ncclDevComm const *)
{
	fputs("ddlemu software CUDA: NCCL's device API (GIN) is not supported\n", stderr);
	return ncclInvalidUsage;
}
