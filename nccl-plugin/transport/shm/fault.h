// SPDX-License-Identifier: Apache-2.0
//
// Faults of the emulator itself, for tests of the verdict: a build with
// -DDDLEMU_FAULTS (go build -tags ddlemu_faults) makes those that DDLEMU_FAULT
// names. In every other build this is nothing.
#ifndef DDLEMU_SHM_FAULT_H
#define DDLEMU_SHM_FAULT_H

#include "model.h"

#ifdef DDLEMU_FAULTS

// Stalls the calling thread now and then.
void fault_stall(int64_t now);
// By how many ns message i is delivered late.
int64_t fault_delay(uint64_t i);

#else

static inline void fault_stall(int64_t now) { (void)now; }
static inline int64_t fault_delay(uint64_t i) { (void)i; return 0; }

#endif

// fault_arrived is the stream offset that has arrived, short of message i's end
// while a fault delays it.
static inline uint64_t fault_arrived(struct ddlemu_flow *f, uint64_t i, int64_t now)
{
	uint64_t arrived = load64(&f->arrived);
#ifdef DDLEMU_FAULTS
	const struct ddlemu_tx *x = tx_of(f, i);
	if (x->size > 0 && arrived >= x->end && now < out_of(f, i)->due + fault_delay(i))
		arrived = x->end - 1;
#else
	(void)i, (void)now;
#endif
	return arrived;
}

#endif
