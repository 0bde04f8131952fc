// SPDX-License-Identifier: Apache-2.0
//
// The parameters of hops, which others change at any time.
#ifndef DDLEMU_LINK_PARAMETERS_H
#define DDLEMU_LINK_PARAMETERS_H

#include "engine.h"

// Copies what is in force on the hops of the path and of its reverse. All steps of one call of flow_advance are made
// with that, however long this thread is stopped meanwhile.
void take_parameters(struct ddlemu_engine *);

#endif
