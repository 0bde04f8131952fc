// SPDX-License-Identifier: Apache-2.0
//
// The interface between NCCL's vtables and the datapaths: one table of functions for each kind of connection. NCCL's
// comm points to a ddlemu_comm, its request to a ddlemu_request. Both are the first members of the datapath's own
// structs.
#ifndef DDLEMU_TRANSPORT_H
#define DDLEMU_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ncclResult_t, as far as a net plugin returns it.
enum ddlemu_result {
	DDLEMU_SUCCESS = 0,
	DDLEMU_SYSTEM_ERROR = 2,
	DDLEMU_INTERNAL_ERROR = 3,
	DDLEMU_INVALID_ARGUMENT = 4,
	DDLEMU_INVALID_USAGE = 5,
	DDLEMU_REMOTE_ERROR = 6,
};

struct ddlemu_comm;
struct ddlemu_request;

// The value of *request when irecv is called for bytes that the receiver may poll (LL, LL128): they must become visible
// in ascending order. NCCL says so since 2.24, as NCCL_NET_OPTIONAL_RECV_COMPLETION.
#define DDLEMU_POLLED 1

struct ddlemu_ops {
	// Sets *request to NULL when the caller must call again.
	int (*isend)(struct ddlemu_comm *, const void *data, size_t size, struct ddlemu_request **request);
	int (*irecv)(struct ddlemu_comm *, void *data, size_t size, struct ddlemu_request **request);
	// size may be NULL. After *done = 1 the request is no longer valid.
	int (*test)(struct ddlemu_request *, int *done, size_t *size);
	// NCCL is about to use this memory, which it has sent from, for something else. NULL if that does not matter.
	void (*withdraw)(struct ddlemu_comm *, const void *data, size_t size);
};

// Why nothing comes from the peer any more. DDLEMU_RANK_DIED: some rank of the job died, and all are to fail together.
// DDLEMU_DAEMON_DIED: the daemon of the fabric, which the packets need, has ended without `ddlemu down`.
enum ddlemu_death { DDLEMU_ALIVE, DDLEMU_PEER_DIED, DDLEMU_RANK_DIED, DDLEMU_FABRIC_DOWN, DDLEMU_DAEMON_DIED };

struct ddlemu_comm {
	const struct ddlemu_ops *ops;
	unsigned long id; // the Go side's number for this connection
	enum ddlemu_death dead; // atomic; the thread that watches the peers writes it
	uint32_t reported; // the hash of the failure's text that was written last
	int lost_rank; // with DDLEMU_RANK_DIED: the rank; written before dead
};

// These two are called under the endpoint's lock. The first rank that died stays the reason.
static inline void ddlemu_set_dead(struct ddlemu_comm *c, enum ddlemu_death why)
{
	if (c->dead != DDLEMU_RANK_DIED)
		__atomic_store_n(&c->dead, why, __ATOMIC_RELEASE);
}

static inline void ddlemu_set_rank_died(struct ddlemu_comm *c, int rank)
{
	if (c->dead == DDLEMU_RANK_DIED || c->dead == DDLEMU_FABRIC_DOWN || c->dead == DDLEMU_DAEMON_DIED)
		return;
	c->lost_rank = rank;
	__atomic_store_n(&c->dead, DDLEMU_RANK_DIED, __ATOMIC_RELEASE);
}

struct ddlemu_request {
	struct ddlemu_comm *comm;
	uint64_t record; // the number of its record in the ledger; 0: it has none
};

// What a thread has called, for the ledger. Only kept if the process writes one.
struct ddlemu_calls {
	struct ddlemu_request *posted; // last. NCCL's profiler says what it is for right after the post
	int64_t outstanding; // requests that NCCL has not got back: while there are any, it calls all the time
	int64_t last; // call
	int64_t gap; // the longest time between two calls since the last post, while there were requests
};

// The calls of this thread. In a shared library the address of a thread's variable costs a call; the attribute lets the
// compiler make it once in a function.
struct ddlemu_calls *ddlemu_calls(void) __attribute__((const));

// The text of this thread's last failure, NULL if there was none since the last call.
const char *ddlemu_take_error(void);

// Whether the text of this thread's last failure differs from the text of the connection's last failure. If it does
// not, the text is taken.
bool ddlemu_error_is_new(struct ddlemu_comm *);

// Refuses a message of that size, and keeps the text for it.
int ddlemu_refuse_size(size_t size);

#endif
