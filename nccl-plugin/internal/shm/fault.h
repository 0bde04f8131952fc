// SPDX-License-Identifier: Apache-2.0
//
// Deliberate faults of the emulator, for tests of the test suites and of the verdict. A build with -DDDLEMU_FAULTS (go
// build -tags ddlemu_faults) has the fault that DDLEMU_FAULT names. In every other build these functions do nothing.
#ifndef DDLEMU_SHM_FAULT_H
#define DDLEMU_SHM_FAULT_H

#include "conn.h"

#ifdef DDLEMU_FAULTS

// Stalls the calling thread now and then.
void fault_stall(int64_t now);
// The same for a thread that plays what a node does.
void fault_hold(int64_t now);
// The ns by which message i is delivered late.
int64_t fault_delay(uint64_t i);
// Changes a byte of message i, in the receiver's memory.
void fault_flip(uint64_t i, char *data, uint64_t size);
// How many bytes count as arrived before they have.
uint64_t fault_early(void);
// Whether to drop a send. Its request then completes at once.
bool fault_lose(uint64_t size, struct ddlemu_request **request);
// Makes a serialization time wrong.
int64_t fault_rate(int64_t dur);
// Opens descriptors that are never closed, for a new connection.
void fault_leak(void);

#else

static inline void fault_stall(int64_t now) { (void)now; }
static inline void fault_hold(int64_t now) { (void)now; }
static inline int64_t fault_delay(uint64_t i)
{
	(void)i;
	return 0;
}
static inline void fault_flip(uint64_t i, char *data, uint64_t size) { (void)i, (void)data, (void)size; }
static inline bool fault_lose(uint64_t size, struct ddlemu_request **request)
{
	(void)size, (void)request;
	return false;
}
static inline void fault_leak(void) {}

#endif

// fault_arrived is the stream offset that has arrived, as changed by a fault: before message i's end while that is
// delayed, or beyond what has arrived.
static inline uint64_t fault_arrived(struct ddlemu_flow *f, uint64_t i, int64_t now)
{
	uint64_t arrived = load64(&f->published.arrived);
#ifdef DDLEMU_FAULTS
	const struct ddlemu_send x = read_send(f, i);
	if (x.size > 0 && arrived >= x.end && now < read_time(&times_at(f, i)->due) + fault_delay(i))
		arrived = x.end - 1;
	arrived += fault_early();
#else
	(void)i, (void)now;
#endif
	return arrived;
}

// fault_looks says whether a fault makes the receiver copy message i before any of it has arrived.
static inline bool fault_looks(struct ddlemu_flow *f, uint64_t i)
{
#ifdef DDLEMU_FAULTS
	return fault_early() > 0 && load64(&f->posted) > i;
#else
	(void)f, (void)i;
	return false;
#endif
}

#endif
