// SPDX-License-Identifier: Apache-2.0
// What the software CUDA has beyond CUDA.
#ifndef DDLEMU_H
#define DDLEMU_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ddlemu_compute says that the calling thread computes for this many ns of virtual time: it returns when they have
// passed. In a function of cudaLaunchHostFunc, it is the stream that computes. Without a virtual clock it returns -1 at
// once, else 0. Before the first communicator there is no virtual clock yet.
int ddlemu_compute(int64_t ns);

// ddlemu_now returns the virtual time in ns. What the calling thread has computed until now has taken its time, if CPU
// time takes virtual time (DDLEMU_COMPUTE). Without a virtual clock it returns -1.
int64_t ddlemu_now(void);

// ddlemu_computed returns for how many ns of virtual time the calling thread has computed: by ddlemu_compute, and by
// its CPU time if that takes virtual time.
int64_t ddlemu_computed(void);

// ddlemuSoftEventWait is cudaEventSynchronize with a limit: it returns cudaErrorNotReady if the event is not complete
// after ns of real time. On a virtual clock the calling thread is idle as in cudaEventSynchronize, so virtual time goes
// on, and the limit has a tolerance of 100 ms. With a limit of 0 or less it is cudaEventQuery.
cudaError_t ddlemuSoftEventWait(cudaEvent_t event, int64_t ns);

#ifdef __cplusplus
}
#endif

#endif
