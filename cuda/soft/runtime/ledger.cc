// SPDX-License-Identifier: Apache-2.0
#include "../exec/ledger.h"

#include "error.h"

extern "C" {

// ddlemuSoftSetLedger is called by the net plugin when this process writes a ledger. From then on kernels tell it what
// their messages are for, and when they run. Returns 0, or -1 for calls of another version or if there is a ledger
// already.
int ddlemuSoftSetLedger(const struct ddlemu_ledger_calls *calls);
}

SOFT_API int ddlemuSoftSetLedger(const struct ddlemu_ledger_calls *calls)
{
	const ddlemu_ledger_calls *none = nullptr;
	if (calls->version != DDLEMU_LEDGER_CALLS_VERSION)
		return -1;
	return softexec::ledger_table.compare_exchange_strong(none, calls) ? 0 : -1;
}
