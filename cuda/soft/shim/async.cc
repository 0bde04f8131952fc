// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL in place of its ncclCommGetAsyncError, which is weak there and has a second name. A program that
// asks again and again whether a communicator is ready waits in virtual time.
#include <nccl.h>

#include "../runtime/clock.h"

extern "C" {

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);

__attribute__((visibility("default"))) ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	const ddlemu_clock_calls *clock = ddlemuSoftClock();
	const uint32_t seen = clock ? clock->read(DDLEMU_SIGNALS) : 0;
	const ncclResult_t result = pncclCommGetAsyncError(comm, error);
	if (clock && result == ncclSuccess && *error == ncclInProgress)
		ddlemuSoftPolled(seen);
	return result;
}

} // extern "C"
