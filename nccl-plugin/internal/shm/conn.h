// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection on the shm datapath.
#ifndef DDLEMU_SHM_CONN_H
#define DDLEMU_SHM_CONN_H

#include "../../../shaper/engine/clock/clock.h"
#include "../../../shaper/fabric/ledger/ledger.h"
#include "../../../shaper/fabric/state/layout.h"
#include "../../../shaper/engine/link/engine.h"
#include "../transport/transport.h"

#define DDLEMU_FLOW_MAGIC 0x31776f6c66646464ull
#define DDLEMU_MAX_REQUESTS 32 // NCCL_NET_MAX_REQUESTS
// One call copies at most this many bytes, so that it does not keep NCCL's other connections waiting. If this end was
// not called for longer than DDLEMU_IDLE_LONG, more bytes wait, and the call may copy more: NCCL yields the processor
// after every round of calls that completes nothing, and on a busy host each yield costs a time slice.
#define DDLEMU_COPY_PER_CALL (64 << 10)
#define DDLEMU_COPY_AFTER_IDLE (1 << 20)
#define DDLEMU_IDLE_LONG 100000 // ns

// Where the bytes of each message are, with a virtual clock and the rdma transport: at entry n % DDLEMU_MAX_MESSAGES, 1
// + the offset in the sender's GPU memory, which the receiver maps; 0: in the ring. The sender writes the entry before
// it posts the message. It gives its memory back to NCCL only when the receiver has copied the bytes.
//
// Only with a virtual clock, because there the receiver copies at the time that the model says. On a real clock it may
// be late, and the sender would have to wait for it.
typedef uint64_t ddlemu_places[DDLEMU_MAX_MESSAGES];
#define DDLEMU_LOST UINT64_MAX // a place: the sender has aborted

// The sender's GPU memory, as mapped in this process. size 0: the receiver does not map it.
struct ddlemu_gpu_memory {
	char *base;
	uint64_t size;
};

struct ddlemu_conn_request {
	struct ddlemu_request base;
	uint64_t msg; // the message's number in its connection
	char *data;
	uint64_t size; // bytes of the send; the capacity of the receive and, once it is received, the message's size
	int busy; // posted, and not given back to NCCL
	int counted_held; // counted in stats->held_sends
	int64_t visible; // for the ledger: when the bytes of a receive were visible
};

// One process's view of a connection. Only this process reads or writes it; the shared memory is at f and ring.
struct ddlemu_conn {
	struct ddlemu_comm base;
	struct ddlemu_conn *next; // in the list of this process's connections
	struct ddlemu_conn *next_active; // in one of the lists of active ones
	uint32_t active; // atomic: it is in one of those
	uint64_t number; // connections that this process has made before
	struct ddlemu_engine engine;
	struct ddlemu_flow *f;
	struct ddlemu_clock_view *clock; // of a fabric with a virtual clock, else NULL
	struct ddlemu_clock_flow *clock_flow; // the flow there
	uint64_t *places; // see ddlemu_places; NULL with a real clock
	struct ddlemu_gpu_memory memory; // the sender's
	char *ring;
	uint64_t ring_size; // a private copy: the peer may overwrite the one in f
	struct ddlemu_link_stats *stats; // where the job counts messages on this link
	struct ddlemu_link_stats *all_stats; // of all hops, if the flow has a path of its own; else NULL
	bool counted_broken; // counted in stats->broken
	struct ddlemu_ledger_view ledger; // next is NULL if this process writes none
	uint32_t ledger_conn; // this connection's place in the ledger's table
	int64_t scale; // the time scale
	int src_node, dst_node; // for messages
	int64_t last_call; // ns: when a call of this end last copied
	uint64_t copied_msgs, copied_off; // messages that this end has copied, and the offset in the next one
	// What the other end had published when this end last looked. Looking again moves a cache line between the
	// cores.
	uint64_t consumed; // f->consumed; sender only
	uint64_t reusable; // messages below this number need no entry in the flow's tables any more
	int64_t peer_checked; // ns: when this end last looked for posts of the other end
	struct ddlemu_conn_request req[DDLEMU_MAX_REQUESTS]; // message n is in entry n % DDLEMU_MAX_REQUESTS
};

// The calls of the two ends: send.c and receive.c.
extern const struct ddlemu_ops ddlemu_shm_sender, ddlemu_shm_receiver;

static inline bool is_sender(const struct ddlemu_conn *c) { return c->base.ops == &ddlemu_shm_sender; }

// The engine of a fabric's file, without a flow and its path.
struct ddlemu_engine ddlemu_engine_of(void *state);
// Says in a view where the fabric's hops, their parameters and their planned changes are.
void ddlemu_place_changes(struct ddlemu_clock_view *, void *state);

// A connection's memory, which begins with the flow, and what this process has checked of what the flow says: the peer
// may overwrite that.
struct ddlemu_region {
	void *memory;
	uint64_t ring_off, ring_size;
	struct ddlemu_path path;
};

// Makes one end. state is the fabric's file, link_stats_off the offset of the job's link statistics in it. With a
// virtual clock the flow is clock_flow, and the region holds the places and the ring. Returns NULL when there is no
// memory.
struct ddlemu_conn *ddlemu_conn_new(const struct ddlemu_ops *ops, unsigned long id, const struct ddlemu_region *region,
	void *state, uint64_t link_stats_off, struct ddlemu_clock_view *clock, struct ddlemu_clock_flow *clock_flow,
	struct ddlemu_gpu_memory memory);
void ddlemu_conn_free(struct ddlemu_conn *);
// Tells the other end that this end is gone. A receiver counts the messages that it has not received as aborted.
void ddlemu_conn_close(struct ddlemu_conn *);

#endif
