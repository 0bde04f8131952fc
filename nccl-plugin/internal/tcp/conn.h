// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection: one or several TCP streams, in one process.
//
// On the wire a message is a header of 8 bytes on stream 0 and its bytes. A small
// message's follow the header; a large one is cut into a part for each stream, at
// multiples of 128 bytes. Each stream carries the parts in the order of the
// messages. What the receiver sends back is at most one notice, see ddlemu_tcp_notice.
#ifndef DDLEMU_TCP_CONN_H
#define DDLEMU_TCP_CONN_H

#include <stdint.h>

#include "../../../shaper/state/layout.h"
#include "../transport/transport.h"

#define DDLEMU_TCP_STREAMS 8 // at most
#define DDLEMU_TCP_REQUESTS 32 // NCCL_NET_MAX_REQUESTS
#define DDLEMU_TCP_STAGE (64 << 10) // what one recv takes of small or ordered messages
#define DDLEMU_TCP_SPLIT (64 << 10) // a message from this size on is cut into parts
// One call hands the kernel, or takes from it, this much, so that none keeps the
// other connections waiting.
#define DDLEMU_TCP_PER_CALL (256 << 10)

// The header of a message: its size, and above that 16 bits of its number. The last
// header of a connection that is closed in peace is a goodbye.
#define DDLEMU_TCP_SIZE_BITS 48
#define DDLEMU_TCP_GOODBYE UINT64_MAX

// Sent back by a receiver that a message is too long for, or that closes.
struct ddlemu_tcp_notice {
	uint64_t magic, size, room;
};
#define DDLEMU_TCP_TOO_LONG 0x656369746f6e6464ull

struct ddlemu_tcp_request {
	struct ddlemu_request base;
	uint64_t msg;
	char *data;
	uint64_t size; // of the send or, once known, of what is received
	uint64_t room; // for the receive
	int64_t posted;
	int busy, ordered;
};

#define DDLEMU_TCP_CUT (-1) // the peer ended it, and did not say goodbye
#define DDLEMU_TCP_CLOSED (-2) // the peer said goodbye

struct ddlemu_tcp_stream {
	int fd;
	int ended; // 0, or why: an errno, or one of those below
	uint64_t msg, off; // the message that it is at, and how far in its part of it
	char *stage; // received, not yet where it belongs; only a receiver's
	uint32_t head, tail;
};

struct ddlemu_tcp_conn {
	struct ddlemu_comm base;
	struct ddlemu_cell *cell; // where the job's messages on this link are counted; sender only
	uint32_t streams;
	uint64_t posted; // messages
	uint64_t known; // messages whose size the receiver knows
	uint64_t counted; // messages that the sender has counted
	int64_t dead_at, ended_at, heard, looked;
	int64_t patience; // ns that bytes of a dead peer may stay under way
	int failed; // the result of every call from now on
	char why[160];
	union {
		struct ddlemu_tcp_notice notice;
		char notice_bytes[sizeof(struct ddlemu_tcp_notice)];
	};
	uint32_t noticed; // bytes of it
	struct ddlemu_tcp_stream stream[DDLEMU_TCP_STREAMS];
	struct ddlemu_tcp_request req[DDLEMU_TCP_REQUESTS];
};

extern const struct ddlemu_ops ddlemu_tcp_sender, ddlemu_tcp_receiver;

// Makes one end, which owns the descriptors in fd from then on. state is the fabric's
// file, and cell_off where its cell is. Returns NULL when memory is short.
struct ddlemu_tcp_conn *ddlemu_tcp_new(const struct ddlemu_ops *ops, unsigned long id, const int *fd, uint32_t streams,
	void *state, uint64_t cell_off, int64_t patience);
// Ends the connection and counts what was not sent.
void ddlemu_tcp_free(struct ddlemu_tcp_conn *);
// Tells the peer that this end is gone, while calls may still be under way.
void ddlemu_tcp_shutdown(struct ddlemu_tcp_conn *);
// Whether every receive may be one whose bytes are polled.
void ddlemu_tcp_order_all(int all);

#endif
