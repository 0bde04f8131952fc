// SPDX-License-Identifier: Apache-2.0
//
// The path of a message: isend hands it to the kernel as far as that takes it, and
// test the rest; the send is complete when the kernel has all of it. irecv and test
// take what has arrived. No call waits or allocates. A call works on its own
// connection alone.

#define _GNU_SOURCE
#include "conn.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../transport/account.h"
#include "../transport/call.h"
#include "../transport/copy.h"

#define HEADER 8
#define LOOK_BACK 200000 // ns between two looks at what the receiver says
// A stream that has ended is put down to the peer's death if that is noticed within
// this time (ns), otherwise the peer closed it.
#define NOTICE_DEATH 600000000

static int order_all;

void ddlemu_tcp_order_all(int all) { __atomic_store_n(&order_all, all, __ATOMIC_RELAXED); }

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// --- failures

// broken keeps a failure for all calls that follow.
static int broken(struct ddlemu_tcp_conn *c, int result, const char *why)
{
	c->failed = result;
	snprintf(c->why, sizeof c->why, "%s", why);
	return FAIL(result, "%s", why);
}

static int too_long(struct ddlemu_tcp_conn *c, uint64_t size, uint64_t room)
{
	char why[sizeof c->why];
	snprintf(why, sizeof why, "message of %llu bytes is longer than the receive of %llu bytes posted for it",
		(unsigned long long)size, (unsigned long long)room);
	return broken(c, DDLEMU_INVALID_USAGE, why);
}

static int usable(struct ddlemu_tcp_conn *c)
{
	if (c->failed)
		return FAIL(c->failed, "%s", c->why);
	return DDLEMU_SUCCESS;
}

// ended is why one of the streams has, 0 if none has.
static int ended(struct ddlemu_tcp_conn *c)
{
	for (uint32_t k = 0; k < c->streams; k++)
		if (c->stream[k].ended)
			return c->stream[k].ended;
	return 0;
}

// lost says whether a connection on which a request waits can't go on. What a dead
// peer has sent may still be under way, and arrives.
static int lost(struct ddlemu_tcp_conn *c, int64_t now)
{
	int dead = __atomic_load_n(&c->base.dead, __ATOMIC_ACQUIRE), why = ended(c);
	if (why == DDLEMU_TCP_CLOSED)
		return broken(c, DDLEMU_REMOTE_ERROR, "the peer closed the connection");
	bool sender = c->base.ops == &ddlemu_tcp_sender;
	if (dead == DDLEMU_FABRIC_DOWN)
		return broken(c, DDLEMU_REMOTE_ERROR, "the fabric was taken down");
	if (dead && c->dead_at == 0)
		c->dead_at = now;
	if (dead && (sender || why || now - (c->heard > c->dead_at ? c->heard : c->dead_at) > c->patience))
		return broken(c, DDLEMU_REMOTE_ERROR, "the peer's process died");
	if (!why)
		return DDLEMU_SUCCESS;
	if (why == ETIMEDOUT)
		return broken(c, DDLEMU_REMOTE_ERROR, "the emulated link was down for longer than TCP repeats itself");
	if (c->ended_at == 0)
		c->ended_at = now;
	if (now - c->ended_at > NOTICE_DEATH)
		return broken(c, DDLEMU_REMOTE_ERROR, "the peer closed the connection");
	return DDLEMU_SUCCESS;
}

// --- both ends

static struct ddlemu_tcp_request *request_of(struct ddlemu_tcp_conn *c, uint64_t msg)
{
	return &c->req[msg % DDLEMU_TCP_REQUESTS];
}

static struct ddlemu_tcp_request *take(struct ddlemu_tcp_conn *c, char *data, uint64_t size, int64_t now)
{
	struct ddlemu_tcp_request *r = request_of(c, c->posted);
	if (r->busy)
		return NULL;
	*r = (struct ddlemu_tcp_request){ .base.comm = &c->base,
		.msg = c->posted,
		.data = data,
		.size = size,
		.room = size,
		.posted = now,
		.busy = 1 };
	c->posted++;
	return r;
}

// part is where stream k's part of a message begins; its length is returned.
static uint64_t part(const struct ddlemu_tcp_conn *c, uint64_t size, uint32_t k, uint64_t *begin)
{
	uint64_t each = size;
	if (c->streams > 1 && size >= DDLEMU_TCP_SPLIT)
		each = ((size + c->streams - 1) / c->streams + DDLEMU_LINE - 1) & ~(uint64_t)(DDLEMU_LINE - 1);
	*begin = least(k * each, size);
	return least(*begin + each, size) - *begin;
}

// through is how many messages all streams are through with.
static uint64_t through(const struct ddlemu_tcp_conn *c)
{
	uint64_t n = c->stream[0].msg;
	for (uint32_t k = 1; k < c->streams; k++)
		n = least(n, c->stream[k].msg);
	return n;
}

// went_wrong notes the end of a stream, unless there is only nothing to do now.
static void went_wrong(struct ddlemu_tcp_stream *s)
{
	if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		s->ended = errno == EPIPE || errno == ECONNRESET ? DDLEMU_TCP_CUT : errno;
}

// --- the sender

// hand_over gives the kernel what it takes of the posted messages on one stream.
static void hand_over(struct ddlemu_tcp_conn *c, uint32_t k, uint64_t *budget)
{
	struct ddlemu_tcp_stream *s = &c->stream[k];
	while (*budget > 0 && s->msg < c->posted && !s->ended) {
		const struct ddlemu_tcp_request *r = request_of(c, s->msg);
		uint64_t begin, size = part(c, r->size, k, &begin), front = k == 0 ? HEADER : 0;
		uint64_t header = r->size | s->msg << DDLEMU_TCP_SIZE_BITS;
		if (s->off < front + size) {
			struct iovec v[2];
			int n = 0;
			uint64_t at = 0;
			if (s->off < front)
				v[n++] = (struct iovec){ (char *)&header + s->off, front - s->off };
			else
				at = s->off - front;
			if (at < size)
				v[n++] = (struct iovec){ r->data + begin + at, least(size - at, *budget) };
			struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)n };
			ssize_t sent = sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (sent < 0) {
				went_wrong(s);
				return;
			}
			s->off += (uint64_t)sent;
			*budget -= least((uint64_t)sent, *budget);
			if (s->off < front + size)
				continue;
		}
		s->msg++;
		s->off = 0;
	}
}

static void send_on(struct ddlemu_tcp_conn *c)
{
	uint64_t budget = DDLEMU_TCP_PER_CALL;
	for (uint32_t k = 0; k < c->streams; k++)
		hand_over(c, k, &budget);
}

// look_back reads what the receiver says, now and then: nothing, or that a message
// was too long, or its end.
static int look_back(struct ddlemu_tcp_conn *c, int64_t now)
{
	struct ddlemu_tcp_stream *s = &c->stream[0];
	if (now - c->looked < LOOK_BACK && !s->ended)
		return DDLEMU_SUCCESS;
	c->looked = now;
	while (c->noticed < sizeof c->notice) {
		ssize_t n = recv(s->fd, c->notice_bytes + c->noticed, sizeof c->notice - c->noticed, MSG_DONTWAIT);
		if (n == 0)
			s->ended = DDLEMU_TCP_CUT;
		if (n < 0)
			went_wrong(s);
		if (n <= 0)
			return DDLEMU_SUCCESS;
		c->noticed += (uint32_t)n;
	}
	if (c->notice.magic == DDLEMU_TCP_GOODBYE) {
		s->ended = DDLEMU_TCP_CLOSED;
		return DDLEMU_SUCCESS;
	}
	if (c->notice.magic != DDLEMU_TCP_TOO_LONG)
		return broken(c, DDLEMU_REMOTE_ERROR, "the peer sent nonsense");
	return too_long(c, c->notice.size, c->notice.room);
}

// account counts messages that the kernel has taken. How late they arrive the
// shaper knows, from its packets.
static void account(struct ddlemu_tcp_conn *c, int64_t now)
{
	for (uint64_t n = through(c); c->counted < n; c->counted++) {
		const struct ddlemu_tcp_request *r = request_of(c, c->counted);
		struct ddlemu_class *k = size_class_of(c->cell, r->size);
		__atomic_fetch_add(&k->messages, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&k->bytes, r->size, __ATOMIC_RELAXED);
		count_span(c->cell, r->posted, now);
	}
}

static int sender_isend(struct ddlemu_comm *comm, const void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_tcp_conn *c = (struct ddlemu_tcp_conn *)comm;
	*request = NULL;
	int bad = usable(c);
	if (bad)
		return bad;
	if (size >> (DDLEMU_TCP_SIZE_BITS - 1))
		return FAIL(DDLEMU_INVALID_USAGE, "a message of %zu bytes is too long", size);
	int64_t now = clock_now();
	if ((bad = look_back(c, now)) || (bad = lost(c, now)))
		return bad;
	struct ddlemu_tcp_request *r = take(c, (char *)data, size, now);
	send_on(c);
	account(c, now);
	if (r != NULL)
		*request = &r->base;
	return DDLEMU_SUCCESS;
}

static int sender_test(struct ddlemu_request *request, int *done, size_t *size)
{
	struct ddlemu_tcp_request *r = (struct ddlemu_tcp_request *)request;
	struct ddlemu_tcp_conn *c = (struct ddlemu_tcp_conn *)request->comm;
	*done = 0;
	int bad = usable(c);
	if (bad)
		return bad;
	if (through(c) < c->posted) {
		int64_t now = clock_now();
		send_on(c);
		account(c, now);
		if (through(c) <= r->msg)
			return (bad = look_back(c, now)) ? bad : lost(c, now);
	}
	if (size != NULL)
		*size = r->size;
	r->busy = 0;
	*done = 1;
	return DDLEMU_SUCCESS;
}

// --- the receiver

// receive takes what has arrived on a stream: up to room bytes to where they belong,
// and of what follows up to ahead bytes into the empty stage. It says whether
// anything came.
static bool receive(struct ddlemu_tcp_conn *c, struct ddlemu_tcp_stream *s, char *to, uint64_t room, uint64_t ahead,
	uint64_t *budget)
{
	if (s->ended)
		return false;
	if (s->head == s->tail)
		s->head = s->tail = 0;
	struct iovec v[2] = { { to, room }, { s->stage + s->tail, ahead } };
	struct msghdr m = { .msg_iov = room > 0 ? v : v + 1, .msg_iovlen = room > 0 && ahead > 0 ? 2 : 1 };
	ssize_t n = recvmsg(s->fd, &m, MSG_DONTWAIT);
	if (n <= 0) {
		if (n == 0)
			s->ended = DDLEMU_TCP_CUT;
		else
			went_wrong(s);
		return false;
	}
	uint64_t straight = least((uint64_t)n, room);
	s->off += straight;
	s->tail += (uint32_t)((uint64_t)n - straight);
	*budget -= least((uint64_t)n, *budget);
	return true;
}

// more fills the stage up behind what is left in it.
static bool more(struct ddlemu_tcp_conn *c, struct ddlemu_tcp_stream *s, uint64_t most, uint64_t *budget)
{
	uint32_t left = s->tail - s->head;
	memmove(s->stage, s->stage + s->head, left);
	s->head = 0;
	s->tail = left;
	return receive(c, s, NULL, 0, least(most, DDLEMU_TCP_STAGE - left), budget);
}

// Of a message that need not be ordered, this much is read with its header.
#define WITH_HEADER (4 << 10)

// open_message reads the header of the next message.
static int open_message(struct ddlemu_tcp_conn *c, struct ddlemu_tcp_stream *s)
{
	uint64_t header;
	memcpy(&header, s->stage + s->head, HEADER);
	s->head += HEADER;
	struct ddlemu_tcp_request *r = request_of(c, c->known);
	uint64_t size = header & (((uint64_t)1 << DDLEMU_TCP_SIZE_BITS) - 1);
	if (header == DDLEMU_TCP_GOODBYE) {
		s->ended = DDLEMU_TCP_CLOSED;
		return DDLEMU_SUCCESS;
	}
	if (header >> DDLEMU_TCP_SIZE_BITS != (c->known & 0xffff))
		return broken(c, DDLEMU_REMOTE_ERROR, "the peer sent nonsense");
	if (size > r->room) {
		struct ddlemu_tcp_notice n = { DDLEMU_TCP_TOO_LONG, size, r->room };
		// The buffer towards the sender is empty; if it is not, the sender is told by the end.
		if (send(s->fd, &n, sizeof n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			went_wrong(s);
		return too_long(c, size, r->room);
	}
	r->size = size;
	c->known++;
	s->off = 0;
	return DDLEMU_SUCCESS;
}

// unstage moves staged bytes to where they belong, ordered ones in whole lines. It
// says whether it did.
static bool unstage(struct ddlemu_tcp_stream *s, const struct ddlemu_tcp_request *r, uint64_t begin, uint64_t size)
{
	uint64_t n = least(s->tail - s->head, size - s->off);
	if (r->ordered && n < size - s->off)
		n = (s->off + n) / DDLEMU_LINE * DDLEMU_LINE - least(s->off, (s->off + n) / DDLEMU_LINE * DDLEMU_LINE);
	if (n == 0)
		return false;
	char *to = r->data + begin + s->off;
	if (r->ordered)
		ordered_copy(to, s->stage + s->head, n);
	else
		memcpy(to, s->stage + s->head, n);
	s->head += (uint32_t)n;
	s->off += n;
	return true;
}

// take_in receives on one stream what receives are posted for.
static int take_in(struct ddlemu_tcp_conn *c, uint32_t k, uint64_t *budget)
{
	struct ddlemu_tcp_stream *s = &c->stream[k];
	while (*budget > 0) {
		if (k == 0 && s->msg == c->known) {
			if (s->msg == c->posted)
				return DDLEMU_SUCCESS;
			bool ordered = request_of(c, s->msg)->ordered;
			if (s->tail - s->head < HEADER && !more(c, s, ordered ? DDLEMU_TCP_STAGE : WITH_HEADER, budget))
				return DDLEMU_SUCCESS;
			if (s->tail - s->head < HEADER)
				continue;
			int bad = open_message(c, s);
			if (bad || s->ended == DDLEMU_TCP_CLOSED)
				return bad;
		}
		if (s->msg == c->known)
			return DDLEMU_SUCCESS;
		const struct ddlemu_tcp_request *r = request_of(c, s->msg);
		uint64_t begin, size = part(c, r->size, k, &begin);
		if (s->off == size) {
			s->msg++;
			s->off = 0;
			continue;
		}
		if (unstage(s, r, begin, size))
			continue;
		bool came;
		if (r->ordered)
			came = more(c, s, DDLEMU_TCP_STAGE, budget);
		else // and the next header with its end
			came = receive(c, s, r->data + begin + s->off, least(size - s->off, *budget),
				k == 0 && size - s->off <= *budget ? HEADER : 0, budget);
		if (!came)
			return DDLEMU_SUCCESS;
	}
	return DDLEMU_SUCCESS;
}

static int receiver_irecv(struct ddlemu_comm *comm, void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_tcp_conn *c = (struct ddlemu_tcp_conn *)comm;
	// NCCL says so of LL and LL128, whose receivers poll the bytes.
	bool ordered = (uintptr_t)*request == DDLEMU_POLLED || __atomic_load_n(&order_all, __ATOMIC_RELAXED);
	*request = NULL;
	int bad = usable(c);
	if (bad)
		return bad;
	struct ddlemu_tcp_request *r = take(c, data, size, 0);
	if (r != NULL) {
		r->ordered = ordered;
		*request = &r->base;
	}
	return DDLEMU_SUCCESS;
}

static int receiver_test(struct ddlemu_request *request, int *done, size_t *size)
{
	struct ddlemu_tcp_request *r = (struct ddlemu_tcp_request *)request;
	struct ddlemu_tcp_conn *c = (struct ddlemu_tcp_conn *)request->comm;
	*done = 0;
	int bad = usable(c);
	if (bad)
		return bad;
	if (through(c) <= r->msg) {
		uint64_t budget = DDLEMU_TCP_PER_CALL;
		for (uint32_t k = 0; k < c->streams; k++)
			if ((bad = take_in(c, k, &budget)))
				return bad;
		if (budget < DDLEMU_TCP_PER_CALL)
			c->heard = clock_now();
		if (through(c) <= r->msg) {
			if (budget < DDLEMU_TCP_PER_CALL ||
				(!ended(c) && !__atomic_load_n(&c->base.dead, __ATOMIC_RELAXED)))
				return DDLEMU_SUCCESS;
			return lost(c, clock_now());
		}
	}
	if (size != NULL)
		*size = r->size;
	r->busy = 0;
	*done = 1;
	return DDLEMU_SUCCESS;
}

const struct ddlemu_ops ddlemu_tcp_sender = { .isend = sender_isend, .irecv = ddlemu_no_irecv, .test = sender_test };
const struct ddlemu_ops ddlemu_tcp_receiver = {
	.isend = ddlemu_no_isend, .irecv = receiver_irecv, .test = receiver_test
};

// --- control

struct ddlemu_tcp_conn *ddlemu_tcp_new(const struct ddlemu_ops *ops, unsigned long id, const int *fd, uint32_t streams,
	void *state, uint64_t cell_off, int64_t patience)
{
	struct ddlemu_tcp_conn *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	c->base = (struct ddlemu_comm){ .ops = ops, .id = id };
	c->cell = (struct ddlemu_cell *)((char *)state + cell_off);
	c->streams = streams;
	c->patience = patience;
	for (uint32_t k = 0; k < streams; k++) {
		c->stream[k].fd = -1;
		if (ops == &ddlemu_tcp_receiver && (c->stream[k].stage = malloc(DDLEMU_TCP_STAGE)) == NULL) {
			ddlemu_tcp_free(c);
			return NULL;
		}
	}
	for (uint32_t k = 0; k < streams; k++)
		c->stream[k].fd = fd[k];
	return c;
}

// goodbye tells the peer that this end is closed in peace, if all was sent. That it
// is not heard is no harm: then the end of the stream says so, only later.
static void goodbye(struct ddlemu_tcp_conn *c)
{
	const struct ddlemu_tcp_notice n = { .magic = DDLEMU_TCP_GOODBYE };
	bool sender = c->base.ops == &ddlemu_tcp_sender;
	if (!sender || through(c) == c->posted)
		(void)!send(c->stream[0].fd, &n, sender ? HEADER : sizeof n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ddlemu_tcp_free(struct ddlemu_tcp_conn *c)
{
	if (c->stream[0].fd >= 0)
		goodbye(c);
	if (c->base.ops == &ddlemu_tcp_sender && c->posted > through(c))
		__atomic_fetch_add(&c->cell->aborted, c->posted - through(c), __ATOMIC_RELAXED);
	for (uint32_t k = 0; k < c->streams; k++) {
		if (c->stream[k].fd >= 0)
			close(c->stream[k].fd);
		free(c->stream[k].stage);
	}
	free(c);
}

void ddlemu_tcp_shutdown(struct ddlemu_tcp_conn *c)
{
	for (uint32_t k = 0; k < c->streams; k++)
		shutdown(c->stream[k].fd, SHUT_RDWR);
}
