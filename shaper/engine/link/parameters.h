// SPDX-License-Identifier: Apache-2.0
//
// The parameters of hops, which others change at any time.
#ifndef DDLEMU_LINK_PARAMETERS_H
#define DDLEMU_LINK_PARAMETERS_H

#include "engine.h"

// Puts block n in force on a hop at time now, by the fabric's clock; retired is CLOCK_MONOTONIC. The block is one that
// no hop uses. A hop that comes up was not free before, and one that stays down is down since it went down.
void put_in_force(
	struct ddlemu_hop *, struct ddlemu_block *blocks, uint32_t count, uint32_t n, int64_t now, int64_t retired);
// Copies the parameters in force on the hops of the path and of its reverse. All steps of one call of flow_advance are
// made with that, however long this thread is stopped meanwhile.
void take_parameters(struct ddlemu_engine *);

#endif
