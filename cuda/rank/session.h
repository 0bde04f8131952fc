// SPDX-License-Identifier: Apache-2.0
//
// This rank's communicator and stream, the thread that watches them, and the one way to end after an error.

#ifndef DDLEMU_RANK_SESSION_H
#define DDLEMU_RANK_SESSION_H

#include "api.h"
#include "job.h"

struct session {
	int rank, ranks;
	nccl_comm comm; // NULL when there is none
	cuda_stream stream;
	cuda_event start, stop;
	struct buffers buffers;
};

// The one session of this process. The main thread owns it; the watching thread reads comm under a lock.
extern struct session session;

// Starts the watching thread: every 100 ms it asks NCCL for an asynchronous error of the communicator, and if there is
// one ends the process as session_fail does. The main thread meanwhile sleeps in the CUDA runtime, so that a rank on a
// small host takes no processor time from NCCL's own threads.
void session_watch(void);

// What the process is doing, for the error line: a command's verb. The string must stay.
void session_set_command(const char *verb);

// Each ends the process on failure. init makes the communicator, its stream and its events.
void session_init(int device, int ranks, int rank, const nccl_unique_id *id);
void session_close(int abort); // 0: ncclCommDestroy, 1: ncclCommAbort
void session_reserve(size_t bytes);

// Bracket calls into NCCL by the main thread: an abort from another thread waits for them.
void session_enter_nccl(void);
void session_leave_nccl(void);

// Ends the process with status 1: one error line to the parent and to standard error, then an attempt of at most a
// second to abort the communicator, so that peers and plugins learn of the end. Never returns.
__attribute__((noreturn, format(printf, 2, 3))) void session_fail(const char *name, const char *format, ...);

// As session_fail where the result is not success; what names the call.
void session_check_cuda(cuda_result result, const char *what);
void session_check_nccl(nccl_result result, const char *what);

// As session_fail if NCCL has an asynchronous error for the communicator.
void session_check_async(void);

// As session_fail without the error line: the parent is gone.
void session_orphaned(void);

// The process is about to end by itself: from now on nothing else ends it with an error.
void session_closing(void);

#endif
