// SPDX-License-Identifier: Apache-2.0
//
// This rank's communicators and stream, the thread that watches them, and how the process ends after an error.

#ifndef DDLEMU_RANK_SESSION_H
#define DDLEMU_RANK_SESSION_H

#include "api.h"
#include "operation.h"

enum { COMM_NAME_MAX = 64, COMMS_MAX = 1024 };

struct communicator {
	char name[COMM_NAME_MAX]; // "" for one without a name
	int rank, ranks;
	nccl_comm comm;
};

struct session {
	struct communicator comms[COMMS_MAX];
	int comm_count;
	cuda_stream stream; // while there is a communicator
	cuda_event start, stop;
	struct buffers buffers;
};

// The session of this process. Only the main thread changes it; the watching thread reads the communicators under a
// lock.
extern struct session session;

// Starts the watching thread. Every 100 ms it asks NCCL for an asynchronous error of each communicator. If there is
// one, it ends the process as session_fail does. So the main thread can sleep in the CUDA runtime and leaves the CPU to
// NCCL's threads.
void session_watch(void);

// Sets the command that the error line reports. The string must stay valid.
void session_set_command(const char *verb);

// Returns the communicator with this name, or NULL.
struct communicator *session_comm(const char *name);

// Each of these ends the process on failure. session_init creates a communicator, and for the first one the stream and
// its events. session_close ends all communicators, the newest first.
void session_init(const char *name, int device, int ranks, int rank, const nccl_unique_id *id);
void session_close(void);
void session_reserve(size_t bytes);

// The main thread calls these before and after calls of NCCL. An abort by another thread waits for such a call to end.
void session_enter_nccl(void);
void session_leave_nccl(void);

// Ends the process with status 1. It writes one error line to the parent and to standard error. Then it aborts the
// communicators, so that peers and plugins are told, but waits at most a second for that.
__attribute__((noreturn, format(printf, 2, 3))) void session_fail(const char *name, const char *format, ...);

// The same if the result is not success. what names the call.
void session_check_cuda(cuda_result result, const char *what);
void session_check_nccl(nccl_result result, const char *what);

// The same if a communicator has an asynchronous error.
void session_check_async(void);

// The same without the error line: the parent has ended.
void session_orphaned(void);

// Call this before the process ends normally: from now on no other thread ends it with an error.
void session_closing(void);

#endif
