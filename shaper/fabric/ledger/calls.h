// SPDX-License-Identifier: Apache-2.0
//
// How the software CUDA tells the ledger what messages are for, and when kernels ran. The net plugin fills this table
// when the process writes a ledger, and hands it over (ddlemuSoftSetLedger). It is for what NCCL's profiler does not
// say: NCCL 2.22 has none, and later ones leave out some collectives.
//
// A kernel and NCCL's progress thread share the memory of a message, its slot: the kernel writes it before the thread
// posts the send, and reads it before the thread posts another receive for it. So the slot's address links both.
#ifndef DDLEMU_LEDGER_CALLS_H
#define DDLEMU_LEDGER_CALLS_H

#include "record.h"

#define DDLEMU_LEDGER_CALLS_VERSION 2

struct ddlemu_ledger_calls {
	uint32_t version; // DDLEMU_LEDGER_CALLS_VERSION
	// A kernel begins a task. comm is a number of this process; number, kind and begun are set. Returns the lower
	// half of its record's number, 0 if NCCL's profiler says the same.
	uint32_t (*task)(struct ddlemu_task_record);
	// The part of a task that one connection carries. Returns the lower half of its record's number.
	uint32_t (*op)(uint32_t task, int channel, int sends);
	// The next send from this slot belongs to an operation.
	void (*sends)(const void *slot, uint32_t op);
	// The last receive into this slot belongs to an operation. Its bytes are read.
	void (*receives)(const void *slot, uint32_t op);
	// This thread launches a kernel. Returns the number of its record.
	uint64_t (*launch)(uint64_t stream);
	// The kernel begins on this thread, which tells its tasks until it ends.
	void (*begin)(uint64_t kernel);
	void (*end)(uint64_t kernel);
	// A host function of a stream ran from one time to another.
	void (*computed)(uint64_t stream, int64_t begun, int64_t ended);
};

#endif
