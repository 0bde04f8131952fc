// SPDX-License-Identifier: Apache-2.0
//
// What the vtables and constructors in C and the control code in Go use of each other.
#ifndef DDLEMU_GLUE_H
#define DDLEMU_GLUE_H

#include <stdint.h>

#include "abi.h"

// A NIC of this node. The name stays valid until the process ends.
struct net_nic {
	const char *name;
	uint64_t guid;
	int speed; // Mb/s
	float latency; // us
	int port;
};

// Writes a line to NCCL's log, at one of NET_LOG_*; nowhere if NCCL gave no logger.
void net_log(int level, const char *text);
void net_set_logger(net_logger);

// net_at_exit has netLeave called once, when the process ends. net_exiting says whether that has begun: NCCL's threads
// may go on calling, but its log may be gone.
int net_at_exit(void);
int net_exiting(void);

// net_exit_status is the status with which the process ends, once netLeave is called, and 0 before.
int net_exit_status(void);

// Whether this process was forked after it loaded the library. Then it has the library's memory but none of Go's
// threads, and the connections are its parent's: every call is refused. net_refused also says so on stderr, once.
extern int net_is_child;
static inline int net_forked(void) { return __atomic_load_n(&net_is_child, __ATOMIC_ACQUIRE); }
int net_refused(void);

// Whether the program has more privileges than its user (setuid, setgid, file capabilities). Then the environment and
// the user's files are not trusted.
int net_secure(void);

// Reads a variable as the host process has it now: os.Getenv has a copy from when the library was loaded. Every
// variable is empty if net_secure.
const char *net_getenv(const char *name);

// Entry i of the environment, as NAME=VALUE; NULL behind the last one, and in a program with more privileges than its
// user.
const char *net_environ(int i);
int net_setenv(const char *name, const char *value);

// Writes the PCI bus ID of the GPU of the calling thread's CUDA context: of a software GPU if `soft`, else of a real
// one. Returns 0 if there is none, or if this NCCL uses GPUs of the other kind.
int net_gpu(char *text, size_t size, int soft);

// The kind of GPU that the software CUDA of this process shows, "" for none; NULL if the process has none.
const char *net_soft_kind(void);

// Gives the calls of the virtual clock (shaper/engine/clock/calls.h) to the software CUDA. Returns -1 if this process
// has none, or one that does not take them.
int net_set_clock(const void *calls);

// The same for the calls of a node on a real clock (struct ddlemu_node_calls).
int net_set_node(const void *calls);

// Tells the software CUDA, if this process has it, that a rank of the job died: kernels that wait fail. -1: the
// kernels of communicators that are made from now on have nothing to do with that.
void net_rank_died(int rank);

// Where the memory of the software GPU that the calling thread uses is: a file that other processes may map, and its
// mapping in this process. They stay as long as the process. Returns -1 if there is none.
int net_gpu_memory(int *fd, void **base, size_t *size);

// Gives the profiler the ledger (struct ddlemu_ledger_view) and the virtual clock (struct ddlemu_clock_view), NULL if
// the clock is real.
void net_set_ledger(void *next, void *records, uint64_t mask, const void *virtual_clock);

// Gives the ranges of the program (ranges.h) the place for their names in that ledger, and the count of lost ranges.
void net_set_ranges(void *used, void *names, void *lost);

// The library with the NCCL that has given the logger, to be closed by dlclose; NULL if it is not known. dlsym finds
// the symbols of that library and of the libraries that it is linked with.
void *net_open_nccl(void);

// The version of the NCCL that has given the logger, as ncclGetVersion says it; 0 if it is not known.
int net_nccl_version(void);

// The calls with which the software CUDA tells that ledger what messages are for (struct ddlemu_ledger_calls), and
// hands them over: -1 if this process has no software CUDA, or one that does not take them.
const void *net_ledger_calls(void);
int net_set_ledger_calls(const void *calls);

// Loads the user's profiler, which gets NCCL's events too. Returns -1 if it cannot be loaded.
int net_load_profiler(const char *name);
int net_pid(void);

// Whether this process only records what it calls (DDLEMU_RECORD): the network is not ours, and nothing is emulated.
int net_records(void);

// The path of this library.
const char *net_path(void);

// Whether NCCL may pass GPU memory: only if the GPUs are software, and their memory is host memory. Set before NCCL
// reads the properties of the NICs.
void net_set_direct(int);
int net_direct(void);

// Whether the tuner removes LL128 from NCCL's choices between nodes.
void net_set_without_ll128(int);
int net_without_ll128(void);

#endif
