// SPDX-License-Identifier: Apache-2.0
//
// One connection as it lies in the memory that both of its processes map: what
// the sender says, what the receiver says, and the state of the link model.
//
// Who writes what: `tx` and the fields of the sender's line only the sender, `rx`
// and the receiver's line only the receiver. The rest belongs to whoever holds
// `lock`, which is only ever tried, never waited for; a process that dies with it
// leaves a connection whose other end is told that its peer died.
// Memory order: a count (posted, recvd, written, consumed, due_count, sent_count,
// arrived) is stored with release after what it counts, and loaded with acquire.
#ifndef DDLEMU_SHM_FLOW_H
#define DDLEMU_SHM_FLOW_H

#include <stddef.h>
#include <stdint.h>

#include "../../../shaper/state/layout.h"

#define DDLEMU_NEVER INT64_MAX
#define DDLEMU_MAX_SEGMENTS 2048 // link.MaxSegments
#define DDLEMU_MAX_MESSAGES 1024 // link.MaxMessages
#define DDLEMU_SENDER 1 // whose process holds the lock
#define DDLEMU_RECEIVER 2
#define DDLEMU_LINK_DOWN 1 // why a flow is broken
#define DDLEMU_NONSENSE 2
#define DDLEMU_FLOW_MAGIC 0x31776f6c66646464ull

struct ddlemu_tx { // what the sender says of a message
	uint64_t size, end; // bytes, and stream offset behind the last one
	int64_t posted;
};

struct ddlemu_rx { // what the receiver says of a message
	int64_t posted;
	uint64_t capacity;
};

struct ddlemu_out { // what the model says of a message
	int64_t ready; // the sender's host is done with it; not kept where hosts cost nothing
	int64_t due, sent, distortion;
};

struct ddlemu_segment {
	uint64_t end, msg, number;
	uint32_t n, last;
	uint32_t again, lossy; // packets lost on the way, which hops up to lossy carried too
	uint32_t rides, flags;
	int64_t dur, ready, finish, delay, came, due;
};

struct ddlemu_path {
	uint32_t n, reverse_n;
	uint32_t hop[DDLEMU_MAX_HOPS], reverse[DDLEMU_MAX_HOPS];
	uint32_t private_mask; // bit i: hop i is fed by hop i-1 alone
	uint32_t link; // the hop whose cell counts the messages
};

// The congestion window: link's window.
struct ddlemu_window {
	uint64_t size, threshold;
	uint64_t next, acked, recover;
	int64_t last_ack, timer;
	uint32_t limited, piece;
	uint64_t debt, riding;
	int64_t last_came;
	int64_t epoch, middle;
	uint64_t origin, prior, estimate;
};

// The model's answers.
struct ddlemu_answers {
	int64_t next; // before this nothing changes, unless somebody posts
	uint64_t seen_posted, seen_recvd; // posts that the model knows of
	uint64_t arrived; // stream offset
	uint64_t due_count, sent_count; // messages whose times are known
	uint64_t oldest_msg; // messages before it are forgotten by the model
};

struct ddlemu_flow {
	// Set before the other end sees the memory.
	uint64_t magic, fabric_id, id;
	uint64_t size; // of the whole region
	uint64_t ring_off, ring_size;
	struct ddlemu_path path;

	// The sender's.
	_Alignas(128) uint64_t posted;
	uint64_t written; // stream offset copied into the ring
	uint64_t tx_done; // sends given back to NCCL

	// The receiver's.
	_Alignas(128) uint64_t recvd;
	uint64_t consumed; // stream offset copied out of the ring
	uint64_t rx_done; // receives given back to NCCL

	// How it ends: on a line of its own, which both look at with each call and which
	// hardly ever changes.
	_Alignas(128) uint32_t tx_closed;
	uint32_t rx_closed, rx_error; // the receiver's
	uint32_t broken;

	// What both ends look at with each call: told at once, when a call of the model is
	// through, so that the line goes from core to core once.
	_Alignas(128) struct ddlemu_answers said;

	// The model's state: link.Flow. Written under the lock.
	_Alignas(128) uint32_t lock;
	struct ddlemu_answers now; // not said yet
	uint64_t stalls;
	uint64_t oldest, at[DDLEMU_MAX_HOPS], arrived_segs;
	uint64_t cur, off, number, packets;
	uint32_t attempt, bad; // bad: bit i, Gilbert-Elliott state of hop i
	int64_t left, last_due, handed, last_ready[DDLEMU_MAX_HOPS], room[DDLEMU_MAX_HOPS], served[DDLEMU_MAX_HOPS];
	uint64_t known, tail, forgot;
	int64_t last_posted;
	uint64_t gate_ack, sent_ack, gate_read;
	struct ddlemu_window window;

	_Alignas(128) struct ddlemu_tx tx[DDLEMU_MAX_MESSAGES];
	struct ddlemu_rx rx[DDLEMU_MAX_MESSAGES];
	struct ddlemu_out out[DDLEMU_MAX_MESSAGES];
	struct ddlemu_segment segs[DDLEMU_MAX_SEGMENTS];
};

#endif
