// SPDX-License-Identifier: Apache-2.0
//
// Faults of the emulator itself, for tests of the verdict: they exist only in a
// build with -DDDLEMU_FAULTS (go build -tags ddlemu_faults).
#ifndef DDLEMU_SHM_FAULT_H
#define DDLEMU_SHM_FAULT_H

#include "model.h"

#ifdef DDLEMU_FAULTS

void fault_stall(int64_t now);                                   // stalls the sending thread now and then
int64_t fault_delay(uint64_t msg);                               // ns by which this message is delivered late
uint64_t fault_arrived(const struct ddlemu_flow *f, int64_t now); // less than has arrived, when the rate is low

#else

static inline void fault_stall(int64_t now) { (void)now; }
static inline int64_t fault_delay(uint64_t msg) { (void)msg; return 0; }
static inline uint64_t fault_arrived(const struct ddlemu_flow *f, int64_t now)
{
	(void)now;
	return load64(&f->arrived);
}

#endif
#endif
