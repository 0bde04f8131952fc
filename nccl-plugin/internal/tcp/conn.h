// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection on the kernel datapath: one or several TCP streams.
//
// Wire format. A message is a header of 8 bytes on stream 0, followed by its bytes. A message of DDLEMU_TCP_SPLIT bytes
// or more is cut into one fragment per stream, at multiples of 128 bytes; a smaller one is all on stream 0. Each stream
// carries its fragments in the order of the messages. The receiver sends back at most one notice, on stream 0: see
// ddlemu_tcp_notice.
#ifndef DDLEMU_TCP_CONN_H
#define DDLEMU_TCP_CONN_H

#include <stdint.h>

#include "../../../shaper/fabric/state/layout.h"
#include "../transport/transport.h"

#define DDLEMU_TCP_STREAMS 8 // at most
#define DDLEMU_TCP_REQUESTS 32 // NCCL_NET_MAX_REQUESTS
#define DDLEMU_TCP_STAGE (64 << 10) // bytes of a receiver's stage, see ddlemu_tcp_stream
#define DDLEMU_TCP_SPLIT (64 << 10) // messages of this size and more are cut into fragments
// One call writes or reads at most this many bytes, so that it does not keep NCCL's other connections waiting.
#define DDLEMU_TCP_PER_CALL (256 << 10)

// A header is the message's size in the low 48 bits and the low 16 bits of its number above. The last header of a
// connection that is closed after all its messages is DDLEMU_TCP_GOODBYE.
#define DDLEMU_TCP_HEADER 8
#define DDLEMU_TCP_SIZE_BITS 48
#define DDLEMU_TCP_GOODBYE UINT64_MAX

// What a receiver sends back when a message is longer than its receive (magic DDLEMU_TCP_TOO_LONG), or when the
// receiver closes the connection (magic DDLEMU_TCP_GOODBYE, no sizes).
struct ddlemu_tcp_notice {
	uint64_t magic, size, capacity;
};
#define DDLEMU_TCP_TOO_LONG 0x656369746f6e6464ull

struct ddlemu_tcp_request {
	struct ddlemu_request base;
	uint64_t msg; // the message's number in its connection
	char *data;
	uint64_t size; // bytes of the send; of a receive, once its header has been read
	uint64_t capacity; // bytes of the receive
	int64_t posted; // ns of CLOCK_MONOTONIC; only of a send
	int busy; // posted, and not given back to NCCL
	int ordered; // the bytes may be polled (LL, LL128): they must become visible in ascending order
};

// Why a stream has ended, besides an errno.
#define DDLEMU_TCP_CUT (-1) // the peer's end is gone, without a goodbye
#define DDLEMU_TCP_CLOSED (-2) // the peer said goodbye

struct ddlemu_tcp_stream {
	int fd;
	int ended; // 0 while it works, else why
	uint64_t msg, off; // the message that the stream has reached, and the offset in its fragment (with its header)
	// A receiver's buffer for bytes that cannot be received in place: headers, and ordered bytes. Used from head to
	// tail.
	char *stage;
	uint32_t head, tail;
};

struct ddlemu_tcp_conn {
	struct ddlemu_comm base;
	struct ddlemu_link_stats *stats; // where the job counts messages on this link; written by senders
	uint32_t streams;
	uint64_t posted; // messages that NCCL has posted
	uint64_t opened; // receiver: messages whose header has been read
	uint64_t counted; // sender: messages counted in stats
	int64_t dead_since, ended_since; // ns: when the peer's death, and a stream's end, were first seen; 0 = not yet
	int64_t last_received; // ns
	int64_t notice_read; // ns: when the sender last looked for a notice
	int64_t patience; // ns for which bytes of a dead peer may still arrive
	int failed; // the result of every further call, 0 while the connection works
	char why[160]; // the text for it
	union {
		struct ddlemu_tcp_notice notice;
		char notice_bytes[sizeof(struct ddlemu_tcp_notice)];
	};
	uint32_t notice_len; // bytes of the notice that have arrived
	struct ddlemu_tcp_stream stream[DDLEMU_TCP_STREAMS];
	struct ddlemu_tcp_request req[DDLEMU_TCP_REQUESTS]; // message n is in entry n % DDLEMU_TCP_REQUESTS
};

extern const struct ddlemu_ops ddlemu_tcp_sender, ddlemu_tcp_receiver;

// Makes one end of a connection over the connected sockets fd, which it closes when it is freed. state is the fabric's
// file, stats_off the offset of the link statistics in it. Returns NULL when there is no memory; then the sockets stay
// open.
struct ddlemu_tcp_conn *ddlemu_tcp_new(const struct ddlemu_ops *ops, unsigned long id, const int *fd, uint32_t streams,
	void *state, uint64_t stats_off, int64_t patience);
// Says goodbye, counts the sends that are not complete as aborted, and frees the connection.
void ddlemu_tcp_free(struct ddlemu_tcp_conn *);
// Ends the streams, while calls may be in progress.
void ddlemu_tcp_shutdown(struct ddlemu_tcp_conn *);
// Whether the bytes of every receive may be polled: NCCL before 2.24 does not say which are.
void ddlemu_tcp_set_all_polled(int all);

#endif
