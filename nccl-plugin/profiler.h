// SPDX-License-Identifier: Apache-2.0
//
// The plugin's own profiler (profiler.c), and the one of the user (forward.c).
#ifndef DDLEMU_PROFILER_H
#define DDLEMU_PROFILER_H

#include "profiler_abi.h"

// What the versions of a profiler have in common, behind its name and init.
struct prof_calls {
	PROF_CALLS;
};

#define PROF_VERSIONS 6

// The plugin's own: version n at n - 1.
extern const struct prof_calls ddlemu_profiler[PROF_VERSIONS];

// The events that it wants. If the process only records, the network is not ours: then kernels say when a call began
// and ended, which costs NCCL some time.
int ddlemu_profiler_mask(void);

// Makes the context of a communicator, NULL if the process writes no ledger. ranks and rank are 0 and -1 if NCCL does
// not say them.
int ddlemu_profiler_init(void **context, uint64_t comm, int ranks, int rank);

#endif
