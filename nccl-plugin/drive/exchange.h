// SPDX-License-Identifier: Apache-2.0
//
// Connections of a schedule: a sender and a receiver with a few step buffers each, as NCCL's proxies have them.
#ifndef DDLEMU_EXCHANGE_H
#define DDLEMU_EXCHANGE_H

#include <stdint.h>

#include "../../shaper/engine/clock/clock.h"
#include "../internal/transport/transport.h"

#define EXCHANGE_SLOTS 32 // NCCL_NET_MAX_REQUESTS: the most outstanding requests of one end

// All counts are of messages since the start. The caller raises written, consumed and expected; exchange_poll the
// others.
struct exchange {
	struct ddlemu_comm *sender, *receiver;
	char *out, *in; // step buffers, slots of slot_bytes each
	uint64_t slots, slot_bytes;
	uint64_t size[EXCHANGE_SLOTS]; // of the messages written, by number modulo slots
	uint64_t expected; // messages that the receiver may wait for

	uint64_t written; // into step buffers
	uint64_t sent; // isend called
	uint64_t acked; // complete for the sender
	uint64_t posted; // irecv called
	uint64_t arrived; // complete for the receiver
	uint64_t consumed; // taken from step buffers
	struct ddlemu_request *sends[EXCHANGE_SLOTS], *receives[EXCHANGE_SLOTS];
};

// exchange_poll completes and posts what it can on all connections. *moved says whether anything was. It returns 0, or
// an error of the datapath, whose text is then this thread's last error.
int exchange_poll(struct exchange *, int n, int *moved);

// The fabric's time in ns. view is NULL if the clock is real.
int64_t exchange_now(const struct ddlemu_clock_view *view);

// How often something has happened for this process, for exchange_wait; 0 on a real clock.
uint32_t exchange_events(struct ddlemu_clock_view *view);

// Waits on a virtual clock until something happens after `seen` was read, at most until time t. On a real clock it
// gives the processor to others for a moment.
void exchange_wait(struct ddlemu_clock_view *view, uint32_t seen, int64_t t);

#endif
