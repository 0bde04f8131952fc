// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection on the shm datapath. open.h makes and ends it. The life of a message:
//
//  1. isend posts the message in the flow and copies its first bytes into the ring (send.c, copy_in). irecv posts the
//     receive (receive.c). With a virtual clock the bytes stay where they are if the receiver maps that memory
//     (place.h).
//  2. Every call on either end makes the steps of the link model whose time has come (advance.h). The sender's calls
//     copy the message's other bytes into the ring.
//  3. test of the receive copies the bytes that have arrived, in the model, out of the ring (receive.c, copy_out). When
//     the message is due and copied, it counts the message and its lateness.
//  4. test reports the receive when the message is copied out. It reports the send when the model says that it is
//     complete and its bytes are in the ring.
//
// If the process writes a ledger, each of these calls notes what it did (record.h).
//
// No call waits, allocates memory or enters the kernel (clock_gettime is in the vDSO).
//
// Threads and processes. NCCL makes the calls on one end from one thread at a time. The flow and the ring are memory
// that both processes map; shaper/engine/link/flow.h says which end writes which field. The state of the link model
// belongs to the thread that has flow->lock. A call only tries that lock: if the other end has it, the other end makes
// the steps. To make steps in time, a call may also advance the process's other connections. Their list has a lock,
// which calls of NCCL only try; ddlemu_conn_new and ddlemu_conn_free, which NCCL's progress thread does not call, wait
// for it. The thread that watches the peers writes base.dead.
//
// Memory order. A count is stored with release after what it counts, and loaded with acquire before that is read:
//
//	posted, receives_posted     the entries of sends and receives
//	written                     the bytes in the ring
//	consumed                    the free space in the ring: the bytes were read
//	receives_done               the entries of messages that may be used again
//	published.*                 the entries of times
//	lock, sender_closed, receiver_closed, receive_error, broken, dead    everything that was written before
//
// An end loads its own counts without an order. The peer may overwrite anything in the shared memory. So this end's
// pointers, its path and the ring's size are private, and a value of the peer is loaded once, then checked.
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

#endif
