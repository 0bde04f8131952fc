// SPDX-License-Identifier: Apache-2.0
//
// Which operation of a kernel the slot of a message belongs to, see shaper/fabric/ledger/calls.h. Kernels' threads and
// NCCL's progress threads use it at the same time, without a lock. It is used only if the process writes a ledger and
// has such kernels.
#ifndef DDLEMU_SLOTS_H
#define DDLEMU_SLOTS_H

#include <stdint.h>

// Whether kernels say what their slots are for. Set once, before there are connections.
extern int ddlemu_has_slots;

// The next send from this slot belongs to operation op.
void ddlemu_slot_sends(const void *slot, uint32_t op);

// The operation of a send from this slot, 0 if no kernel has said it.
uint32_t ddlemu_slot_op(const void *slot);

// The last receive into this slot has the record with this number in the ledger.
void ddlemu_slot_receives(const void *slot, uint64_t record);

// The number of that record, 0 if there is none.
uint64_t ddlemu_slot_record(const void *slot);

#endif
