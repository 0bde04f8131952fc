// SPDX-License-Identifier: Apache-2.0
//
// The ledger of the net plugin, if this process writes one: kernels say what their messages are for, and when they run
// (shaper/fabric/ledger/calls.h).
#ifndef DDLEMU_SOFT_EXEC_LEDGER_H
#define DDLEMU_SOFT_EXEC_LEDGER_H

#include <atomic>
#include <cstddef>

#include "../../../shaper/fabric/ledger/calls.h"

namespace softexec {

struct Plan;

extern std::atomic<const ddlemu_ledger_calls *> ledger_table;

// Returns the calls of the ledger, or null.
inline const ddlemu_ledger_calls *ledger() { return ledger_table.load(std::memory_order_acquire); }

// Tells the ledger the tasks of a launch, and sets their numbers in the plan. Without a ledger they stay 0.
void name_tasks(Plan *p);

// Forgets the communicators in memory that is freed: another one may get the same address.
void forget_comms(const void *memory, size_t size);

} // namespace softexec

#endif
