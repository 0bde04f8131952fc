// SPDX-License-Identifier: Apache-2.0
//
// Helpers of most cases: connections, buffers with a pattern, messages.
#ifndef CONFORMANCE_TRAFFIC_H
#define CONFORMANCE_TRAFFIC_H

#include "world.h"

// Makes one connection, from rank 0 to rank 1 or back, and returns this rank's end of it. The handle is passed over
// this lane.
void *link_up(struct end *e, int lane, int from);
#define ONE_WAY 0
#define BACK 1

// Its steps.
void *dial(struct end *e, void *handle);
void *answer(struct end *e, void *listen);
void *listen_at(struct end *e, void *handle);
// Closes this rank's end of a connection that comes from rank `from`.
void hang_up(struct end *e, void *comm, int from);

// Pages of memory, registered with a connection.
struct buffer {
	char *p;
	size_t size, mapped;
	void *mhandle;
};

struct buffer buffer_new(struct end *e, void *comm, size_t size);
void buffer_free(struct end *e, void *comm, struct buffer *);
// Makes every later access a SIGSEGV. What NCCL does is to free it.
void buffer_forbid(struct buffer *);

// The bytes of a message depend on its number, so that a message in another's place is recognised.
#define NUMBER(connection, message) ((uint64_t)(connection) << 32 | (uint32_t)(message))
void fill(char *p, size_t n, uint64_t number);
void check(const char *p, size_t n, uint64_t number);
// Checks that n bytes have the value that wipe gave them.
void wipe(char *p, size_t n);
void check_wiped(const char *p, size_t n, const char *what);

// Starts a send or a receive, and repeats the call while the plugin refuses it.
void *start_send(struct end *e, void *comm, struct buffer *, size_t size);
void *start_recv(struct end *e, void *comm, struct buffer *, size_t capacity);
// Calls test once; returns whether the request is done, and checks its size.
int is_done(struct end *e, void *request, size_t size);
void finish(struct end *e, void *request, size_t size);
// is_done which also checks the content, at the receiver. The size is compared last: the content tells a lost message
// from one that was cut.
int has_come(struct end *e, int sender, void *request, struct buffer *, size_t size, uint64_t number);

// Sends or receives one message with checked content, depending on the rank. capacity is the size of the receive.
void pass(struct end *e, void *comm, struct buffer *, size_t size, size_t capacity, uint64_t number);
// Makes a connection, passes a few messages and closes it.
void try_out(struct end *e, int lane);

#define CHECK(call) \
	do { \
		int result_ = (call); \
		if (result_ != SUCCESS) \
			fail(#call " returned %d: %s", result_, net_log()); \
	} while (0)

#endif
