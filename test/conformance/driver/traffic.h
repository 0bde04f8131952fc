// SPDX-License-Identifier: Apache-2.0
//
// What most cases are made of: a connection, buffers with a pattern, a message.
#ifndef CONFORMANCE_TRAFFIC_H
#define CONFORMANCE_TRAFFIC_H

#include "world.h"

// Makes one connection by this lane, from rank 0 to rank 1 or the other way round,
// and returns this rank's end of it.
void *link_up(struct end *e, int lane, int from);
#define ONE_WAY 0
#define BACK 1

// The two steps of it.
void *dial(struct end *e, void *handle);
void *answer(struct end *e, void *listen);
void *listen_at(struct end *e, void *handle);
// Closes this rank's end of a connection that comes from rank `from`.
void hang_up(struct end *e, void *comm, int from);

// Memory of its own pages, registered with a connection.
struct buffer {
	char *p;
	size_t size, mapped;
	void *mhandle;
};

struct buffer buffer_new(struct end *e, void *comm, size_t size);
void buffer_free(struct end *e, void *comm, struct buffer *);
// Makes every later access a SIGSEGV. What NCCL does is to free it.
void buffer_forbid(struct buffer *);

// A message's bytes are drawn from its number, so that one that took another's
// place is known by them.
#define NUMBER(connection, message) ((uint64_t)(connection) << 32 | (uint32_t)(message))
void fill(char *p, size_t n, uint64_t number);
void check(const char *p, size_t n, uint64_t number);
// Checks that n bytes have the value that wipe gave them.
void wipe(char *p, size_t n);
void check_wiped(const char *p, size_t n, const char *what);

// Starts a send or a receive, and tries again while the plugin says so.
void *start_send(struct end *e, void *comm, struct buffer *, size_t size);
void *start_recv(struct end *e, void *comm, struct buffer *, size_t room);
// Calls test once; returns whether the request is done, and checks its size.
int is_done(struct end *e, void *request, size_t size);
void finish(struct end *e, void *request, size_t size);
// is_done for a message whose content is checked too, at the receiver. Its size is
// compared last: by its bytes a lost message is told from one that was cut.
int has_come(struct end *e, int sender, void *request, struct buffer *, size_t size, uint64_t number);

// Sends or receives one message with checked content, by the rank. Room is that of
// the receive.
void pass(struct end *e, void *comm, struct buffer *, size_t size, size_t room, uint64_t number);
// Makes a connection, passes a few messages and closes it.
void try_out(struct end *e, int lane);

#define CHECK(call) \
	do { \
		int result_ = (call); \
		if (result_ != SUCCESS) \
			fail(#call " returned %d: %s", result_, net_log()); \
	} while (0)

#endif
