// SPDX-License-Identifier: Apache-2.0
//
// Why a connection cannot go on. The functions return a result of transport.h. Unless it is DDLEMU_SUCCESS, they keep
// the text for it (transport/call.h).
#ifndef DDLEMU_SHM_FAILURE_H
#define DDLEMU_SHM_FAILURE_H

#include "conn.h"

static inline enum ddlemu_death death(struct ddlemu_conn *c)
{
	return __atomic_load_n(&c->base.dead, __ATOMIC_ACQUIRE);
}

static inline bool is_set(const uint32_t *closed) { return __atomic_load_n(closed, __ATOMIC_ACQUIRE) != 0; }

// is_lock_lost says whether the sender died while it advanced the model: the lock is never released.
static inline bool is_lock_lost(struct ddlemu_conn *c, enum ddlemu_death dead)
{
	return dead && __atomic_load_n(&c->f->lock, __ATOMIC_ACQUIRE) == DDLEMU_SENDER;
}

// The result if the flow is broken (enum ddlemu_broken, or 0), the peer is dead or has closed.
int conn_fail(struct ddlemu_conn *, uint32_t broken, enum ddlemu_death dead, bool peer_closed) __attribute__((cold));
// The peer has written values that it must not write.
int fail_corrupt(void) __attribute__((cold));
// A message is longer than its receive.
int fail_too_long(uint64_t size, uint64_t capacity) __attribute__((cold));

// failure returns why a connection cannot go on, given what the caller has read of the peer's state. DDLEMU_SUCCESS if
// it can.
static inline int failure(struct ddlemu_conn *c, enum ddlemu_death dead, bool peer_closed)
{
	uint32_t broken = __atomic_load_n(&c->f->broken, __ATOMIC_ACQUIRE);
	return broken || dead || peer_closed ? conn_fail(c, broken, dead, peer_closed) : DDLEMU_SUCCESS;
}

#endif
