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

// ddlemuSoftHandovers and ddlemuSoftAwaitHandover are for a thread that looks again and again for what another thread
// or rank does by other means than CUDA and NCCL, such as a socket. On a virtual clock it is idle between its looks:
//
//	for (int again = 0;; again = 1) {
//		uint32_t seen = ddlemuSoftHandovers();
//		if (look())
//			break;
//		if (ddlemuSoftAwaitHandover(seen, again) != 0)
//			sleep_a_little();
//	}
//
// ddlemuSoftHandovers returns a number that changes when a thread of any rank begins to wait: whatever that has done
// before, a look finds then. Without a virtual clock it returns 0.
uint32_t ddlemuSoftHandovers(void);

// ddlemuSoftAwaitHandover waits until the number is not `seen` any more, at most 100 ms of real time. again: the thread
// has done nothing but look since this function returned the last time. Without a virtual clock it returns -1 at once,
// else 0.
int ddlemuSoftAwaitHandover(uint32_t seen, int again);

#ifdef __cplusplus
}
#endif

#endif
