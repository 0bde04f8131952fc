// SPDX-License-Identifier: Apache-2.0
//
// When the steps of the link model are made. On a real clock the calls of NCCL make them. A late call makes the steps
// of the process's other connections too. On a virtual clock the process that runs the clock makes them
// (shaper/engine/clock), and these functions only say what was posted.
//
// No call of NCCL waits here: it only tries the locks. Several threads may call, each for connections of its own.
#ifndef DDLEMU_SHM_ADVANCE_H
#define DDLEMU_SHM_ADVANCE_H

#include "conn.h"

// Makes the steps up to `now` (ns), if there are any.
void conn_advance(struct ddlemu_conn *, int64_t now);
// The same, without a look whether there are any. Only with a real clock.
void conn_advance_now(struct ddlemu_conn *, int64_t now);
// Makes the model read what this end has just posted, and its steps up to `now`.
void conn_posted(struct ddlemu_conn *, int64_t now);

// Adds a new connection to the list of the process. False if there is no memory. It waits for the list's lock.
bool conn_link(struct ddlemu_conn *);
// Removes it: other connections' calls do not make its steps any more. It waits for the list's lock.
void conn_unlink(struct ddlemu_conn *);

#endif
