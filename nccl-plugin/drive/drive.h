// SPDX-License-Identifier: Apache-2.0
//
// The loop that sends and receives on many connections at once, and records times.
#ifndef DDLEMU_DRIVE_H
#define DDLEMU_DRIVE_H

#include <stdint.h>

#include "../../shaper/engine/clock/clock.h"
#include "../internal/transport/transport.h"

#define DRIVE_REQUESTS 32 // NCCL_NET_MAX_REQUESTS: the most outstanding requests of one end

#define DRIVE_SEND 1
#define DRIVE_RECEIVE 2

// One connection. The sending thread writes the sender's fields, the receiving thread the receiver's. sent is atomic.
struct drive_flow {
	struct ddlemu_comm *sender, *receiver;
	char *out, *in; // size bytes each, the same for every message
	uint64_t size;
	uint64_t depth; // sends outstanding, 1 to DRIVE_REQUESTS
	uint64_t messages; // to send at most: the length of the arrays
	int64_t spacing; // the least ns between two posts
	int64_t least; // the least ns from post to visible; 0 = not known
	// Per message, ns of the fabric's clock: before and after the call that posted it, when it was seen, and when
	// the receiver looked the last time before without seeing it.
	int64_t *posted, *returned, *visible, *missing;

	uint64_t sent, complete;
	int64_t next; // the earliest time of the next post
	struct ddlemu_request *sends[DRIVE_REQUESTS];

	uint64_t receives, received;
	int64_t looked; // when the receiver last looked
	struct ddlemu_request *receiving[DRIVE_REQUESTS];
};

struct drive {
	struct ddlemu_clock_view *clock; // NULL: the clock is real
	struct drive_flow *flow;
	int flows;
	int64_t end; // nothing is posted at this time or later
	int64_t give_up; // messages that have not arrived at this time are ignored
	int64_t nap; // ns to sleep after a round that completed nothing; 0 = do not sleep
	int stop; // atomic: not 0 ends both loops
	int all_posted; // atomic: nothing more will be posted
};

// drive_run sends (DRIVE_SEND), receives (DRIVE_RECEIVE) or does both, until all messages are sent and received, or
// give_up. It returns 0, or an error of the datapath, whose text is then this thread's last error.
//
// A thread that does both also sleeps when nothing can happen for long, if the least time of all flows is known. On a
// busy host a thread that sleeps gets the processor in time more often than one that polls all the time. With a virtual
// clock one thread does both: it stands for the application of this process.
int drive_run(struct drive *d, int roles);
void drive_stop(struct drive *d);

#endif
