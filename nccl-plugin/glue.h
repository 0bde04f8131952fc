// SPDX-License-Identifier: Apache-2.0
//
// Between the vtables in C and the control in Go.
#ifndef DDLEMU_GLUE_H
#define DDLEMU_GLUE_H

#include <stdint.h>

#include "abi.h"

// What Go says of one NIC. The name stays valid for the life of the process.
struct net_nic {
	const char *name;
	uint64_t guid;
	int speed; // Mb/s
	float latency; // us
};

// Writes a line to NCCL's log, at one of NET_LOG_*, and to nothing if NCCL gave no
// logger.
void net_log(int level, const char *text);
void net_set_logger(net_logger);
// Calls netLeave at the process's end, once. net_left says whether it has come:
// NCCL's threads may go on, but its log may be gone.
int net_at_exit(void);
int net_left(void);
// Whether this process was forked after it loaded the library. Then it has the library's
// memory but none of Go's threads, and the connections are its parent's: every call is
// refused. net_refused also says so on stderr, once.
extern int net_is_child;
static inline int net_forked(void) { return __atomic_load_n(&net_is_child, __ATOMIC_ACQUIRE); }
int net_refused(void);
// Whether the program has more privileges than its user (setuid, setgid, file
// capabilities): then the environment, and the user's files, are not to be trusted.
int net_secure(void);
// Reads the environment as the host process has it now, which os.Getenv does not.
// It is empty for a program with more privileges than its user.
const char *net_getenv(const char *name);
int net_setenv(const char *name, const char *value);

// Writes the PCI bus id of the GPU of the calling thread's CUDA context; 0 if
// there is none. net_soft_gpu does so for the software CUDA, whose GPUs are no GPUs to
// net_gpu.
int net_gpu(char *text, size_t size);
int net_soft_gpu(char *text, size_t size);

// Whether NCCL may hand in GPU memory: only that of software GPUs, which is the
// host's. Set before NCCL asks for the NICs' properties.
void net_set_direct(int);
int net_direct(void);
// Whether the tuner takes LL128 out of what goes between nodes.
void net_set_without_ll128(int);
int net_without_ll128(void);

#endif
