// SPDX-License-Identifier: Apache-2.0
//
// The loop that sends and receives on many connections at once, and takes the time.
#ifndef DDLEMU_DRIVE_H
#define DDLEMU_DRIVE_H

#include <stdint.h>

#include "../internal/transport/transport.h"

#define DRIVE_REQUESTS 32 // NCCL_NET_MAX_REQUESTS: outstanding at one end at most

#define DRIVE_SEND 1
#define DRIVE_RECEIVE 2

// One connection. Its sender's part is written by the thread that sends, its
// receiver's by the one that receives; sent and over are atomic.
struct drive_flow {
	struct ddlemu_comm *sender, *receiver;
	char *out, *in; // size bytes each, the same for every message
	uint64_t size;
	uint64_t depth; // sends outstanding, 1 to DRIVE_REQUESTS
	uint64_t most; // messages at most, the room of the arrays
	int64_t spacing; // ns between two posts at least
	int64_t least; // ns that a message takes at least; 0 if that is not known
	// CLOCK_MONOTONIC, ns: before and after the call that posted a message, when it was
	// visible, and when it was looked for the last time before that and was not.
	int64_t *posted, *taken, *visible, *missing;

	uint64_t sent, complete;
	int64_t next; // post not before this
	struct ddlemu_request *sends[DRIVE_REQUESTS];

	uint64_t receives, received;
	int64_t looked;
	struct ddlemu_request *receiving[DRIVE_REQUESTS];
};

struct drive {
	struct drive_flow *flow;
	int flows;
	int64_t end; // nothing is posted from here on
	int64_t give_up; // what has not arrived by then is left
	int64_t nap; // ns to sleep after a round in which nothing came to an end; 0 = none
	int stop; // atomic: not 0 ends both loops
	int over; // atomic: nothing more will be sent
};

// drive_run plays the parts asked for, DRIVE_SEND and DRIVE_RECEIVE, until all is sent
// and received, or given up. It returns an error of the datapath, which is then the
// last one of this thread, or 0. A thread that plays both parts also sleeps while nothing
// can happen for long, if all flows know their least.
//
// Where others want the processor, who sleeps gets it in time more often than who polls
// all along.
int drive_run(struct drive *d, int parts);
void drive_stop(struct drive *d);

#endif
