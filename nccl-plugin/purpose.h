// SPDX-License-Identifier: Apache-2.0
//
// The ledger, for the code that says what messages are for: NCCL's profiler interface (profiler.c), and the kernels of
// the software CUDA (purpose.c).
#ifndef DDLEMU_PURPOSE_H
#define DDLEMU_PURPOSE_H

#include "../shaper/engine/clock/clock.h"
#include "../shaper/fabric/ledger/ledger.h"
#include "internal/transport/call.h"

extern struct ddlemu_ledger_view purposes;
extern const struct ddlemu_clock *purpose_clock; // NULL if the clock is real
extern int has_purpose_ledger, is_profiled;

// Whether this process writes a ledger.
static inline int has_purposes(void) { return __atomic_load_n(&has_purpose_ledger, __ATOMIC_ACQUIRE); }

// NCCL has planned a group of tasks. If this thread has launched a kernel since the group before, it is theirs: NCCL
// tells of the group as soon as it has launched the kernel.
void purpose_group(uint32_t group);

static inline int64_t purpose_now(void) { return purpose_clock == NULL ? clock_now() : clock_read(purpose_clock); }

#endif
