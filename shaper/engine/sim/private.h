// SPDX-License-Identifier: Apache-2.0
//
// A driver of the event loop for flows in private memory. It collects the flows whose ends have something to see, so
// that Go crosses to C once for all of them.
#ifndef DDLEMU_SIM_PRIVATE_H
#define DDLEMU_SIM_PRIVATE_H

#include "sim.h"

struct ddlemu_sim_private {
	struct ddlemu_sim sim; // first: the loop hands it to the functions of the driver
	struct ddlemu_engine **engines; // of each flow; NULL: there is no such flow
	uint32_t *batch; // flows, each once, in the order in which something happened; a place for each flow
	uint32_t batch_count, heap_size;
};

// Sets what the loop needs to run. The caller has set all pointers to memory.
void ddlemu_sim_private_init(struct ddlemu_sim_private *);

#endif
