// SPDX-License-Identifier: Apache-2.0
//
// The life of a message on the kernel datapath, in this order:
//
//  1. isend posts it and writes to the sockets what the kernel accepts (write_streams). test of the send writes the
//     rest. The send is complete when the kernel has accepted all of it.
//  2. irecv only posts where the message goes.
//  3. test of the receive reads what has arrived (read_stream). The header comes first, into the stream's stage: it
//     says how long the message is. Then the bytes are received in place, or, if NCCL may poll them, into the stage
//     and copied from there in ascending order.
//  4. test reports a message when every stream is past it.
//
// Locking: there is none. NCCL makes the calls of one connection from one thread at a time, and a call touches its own
// connection only. The thread that watches the peers writes base.dead (release; read with acquire) and nothing else.
// The link statistics are shared between processes, which only add to them, atomically. No call waits or allocates
// memory.

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

#include "../../../shaper/fabric/state/lateness.h"
#include "../transport/call.h"
#include "../transport/copy.h"

#define NOTICE_INTERVAL 200000 // ns between two reads of the receiver's notice
// ns to wait, after a stream has ended without a goodbye, for the news that the peer's process died. After that, the
// peer closed the connection.
#define DEATH_DELAY 600000000

static int all_polled;

void ddlemu_tcp_set_all_polled(int all) { __atomic_store_n(&all_polled, all, __ATOMIC_RELAXED); }

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

// --- failures

// fail_all fails this call and all further calls on the connection.
static int fail_all(struct ddlemu_tcp_conn *c, int result, const char *why)
{
	c->failed = result;
	snprintf(c->why, sizeof c->why, "%s", why);
	return FAIL(result, "%s", why);
}

static int fail_too_long(struct ddlemu_tcp_conn *c, uint64_t size, uint64_t capacity)
{
	char why[sizeof c->why];
	snprintf(why, sizeof why, "message of %llu bytes is longer than the receive of %llu bytes posted for it",
		(unsigned long long)size, (unsigned long long)capacity);
	return fail_all(c, DDLEMU_INVALID_USAGE, why);
}

static int check_failed(struct ddlemu_tcp_conn *c)
{
	if (c->failed)
		return FAIL(c->failed, "%s", c->why);
	return DDLEMU_SUCCESS;
}

static int fail_rank_died(struct ddlemu_tcp_conn *c)
{
	char why[sizeof c->why];
	snprintf(why, sizeof why, RANK_DIED_TEXT, c->base.lost_rank);
	return fail_all(c, DDLEMU_REMOTE_ERROR, why);
}

// stream_end returns why one of the streams has ended, 0 if all work.
static int stream_end(struct ddlemu_tcp_conn *c)
{
	for (uint32_t k = 0; k < c->streams; k++)
		if (c->stream[k].ended)
			return c->stream[k].ended;
	return 0;
}

// check_peer fails if a request that is not complete can never be. What a dead peer has sent may still arrive: a
// receiver waits for it until nothing has arrived for c->patience.
static int check_peer(struct ddlemu_tcp_conn *c, int64_t now)
{
	enum ddlemu_death dead = __atomic_load_n(&c->base.dead, __ATOMIC_ACQUIRE);
	int end = stream_end(c);
	if (end == DDLEMU_TCP_CLOSED)
		return fail_all(c, DDLEMU_REMOTE_ERROR, "the peer closed the connection");
	bool sender = c->base.ops == &ddlemu_tcp_sender;
	if (dead == DDLEMU_FABRIC_DOWN)
		return fail_all(c, DDLEMU_REMOTE_ERROR, "the fabric was taken down");
	if (dead == DDLEMU_DAEMON_DIED)
		return fail_all(c, DDLEMU_REMOTE_ERROR, "the fabric's daemon died: see `ddlemu status`");
	if (dead == DDLEMU_RANK_DIED)
		return fail_rank_died(c);
	if (dead && c->dead_since == 0)
		c->dead_since = now;
	int64_t quiet_since = c->last_received > c->dead_since ? c->last_received : c->dead_since;
	if (dead && (sender || end || now - quiet_since > c->patience))
		return fail_all(c, DDLEMU_REMOTE_ERROR, "the peer's process died");
	if (!end)
		return DDLEMU_SUCCESS;
	if (end == ETIMEDOUT)
		return fail_all(c, DDLEMU_REMOTE_ERROR, "the emulated link was down for longer than TCP retransmits");
	if (c->ended_since == 0)
		c->ended_since = now;
	if (now - c->ended_since > DEATH_DELAY)
		return fail_all(c, DDLEMU_REMOTE_ERROR, "the peer closed the connection");
	return DDLEMU_SUCCESS;
}

// --- both ends

static struct ddlemu_tcp_request *request_of(struct ddlemu_tcp_conn *c, uint64_t msg)
{
	return &c->req[msg % DDLEMU_TCP_REQUESTS];
}

// new_request posts the next message, NULL if as many as NCCL may have are not complete.
static struct ddlemu_tcp_request *new_request(struct ddlemu_tcp_conn *c, char *data, uint64_t size, int64_t now)
{
	struct ddlemu_tcp_request *r = request_of(c, c->posted);
	if (r->busy)
		return NULL;
	*r = (struct ddlemu_tcp_request){ .base.comm = &c->base,
		.msg = c->posted,
		.data = data,
		.size = size,
		.capacity = size,
		.posted = now,
		.busy = 1 };
	c->posted++;
	return r;
}

// fragment_of returns the length of stream k's fragment of a message, and where in the message it begins.
static uint64_t fragment_of(const struct ddlemu_tcp_conn *c, uint64_t size, uint32_t k, uint64_t *begin)
{
	uint64_t each = size;
	if (c->streams > 1 && size >= DDLEMU_TCP_SPLIT)
		each = ((size + c->streams - 1) / c->streams + DDLEMU_LINE - 1) & ~(uint64_t)(DDLEMU_LINE - 1);
	*begin = min_u64(k * each, size);
	return min_u64(*begin + each, size) - *begin;
}

// finished counts the messages that every stream is past.
static uint64_t finished(const struct ddlemu_tcp_conn *c)
{
	uint64_t n = c->stream[0].msg;
	for (uint32_t k = 1; k < c->streams; k++)
		n = min_u64(n, c->stream[k].msg);
	return n;
}

// note_errno keeps why a stream has ended, unless errno says that there is only nothing to do now.
static void note_errno(struct ddlemu_tcp_stream *s)
{
	if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		s->ended = errno == EPIPE || errno == ECONNRESET ? DDLEMU_TCP_CUT : errno;
}

// complete gives a request back to NCCL.
static int complete(struct ddlemu_tcp_request *r, int *done, size_t *size)
{
	if (size != NULL)
		*size = r->size;
	r->busy = 0;
	*done = 1;
	return DDLEMU_SUCCESS;
}

// --- the sender

// write_stream writes posted messages to one stream, as far as the kernel accepts them and the budget (bytes) reaches.
static void write_stream(struct ddlemu_tcp_conn *c, uint32_t k, uint64_t *budget)
{
	struct ddlemu_tcp_stream *s = &c->stream[k];
	while (*budget > 0 && s->msg < c->posted && !s->ended) {
		const struct ddlemu_tcp_request *r = request_of(c, s->msg);
		uint64_t begin, size = fragment_of(c, r->size, k, &begin), front = k == 0 ? DDLEMU_TCP_HEADER : 0;
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
				v[n++] = (struct iovec){ r->data + begin + at, min_u64(size - at, *budget) };
			struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)n };
			ssize_t sent = sendmsg(s->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (sent < 0) {
				note_errno(s);
				return;
			}
			s->off += (uint64_t)sent;
			*budget -= min_u64((uint64_t)sent, *budget);
			if (s->off < front + size)
				continue;
		}
		s->msg++;
		s->off = 0;
	}
}

// count_sent counts the messages that the kernel has accepted since the last call. When their packets arrive is
// measured by the shaper.
static void count_sent(struct ddlemu_tcp_conn *c, int64_t now)
{
	for (uint64_t n = finished(c); c->counted < n; c->counted++) {
		const struct ddlemu_tcp_request *r = request_of(c, c->counted);
		struct ddlemu_class *k = size_class_of(c->stats, r->size);
		__atomic_fetch_add(&k->messages, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&k->bytes, r->size, __ATOMIC_RELAXED);
		count_span(c->stats, r->posted, now);
	}
}

static void write_streams(struct ddlemu_tcp_conn *c, int64_t now)
{
	uint64_t budget = DDLEMU_TCP_PER_CALL;
	for (uint32_t k = 0; k < c->streams; k++)
		write_stream(c, k, &budget);
	count_sent(c, now);
}

// read_notice reads what the receiver sends back, every NOTICE_INTERVAL: a notice, or the end of the stream.
static int read_notice(struct ddlemu_tcp_conn *c, int64_t now)
{
	struct ddlemu_tcp_stream *s = &c->stream[0];
	if (now - c->notice_read < NOTICE_INTERVAL && !s->ended)
		return DDLEMU_SUCCESS;
	c->notice_read = now;
	while (c->notice_len < sizeof c->notice) {
		ssize_t n =
			recv(s->fd, c->notice_bytes + c->notice_len, sizeof c->notice - c->notice_len, MSG_DONTWAIT);
		if (n == 0)
			s->ended = DDLEMU_TCP_CUT;
		if (n < 0)
			note_errno(s);
		if (n <= 0)
			return DDLEMU_SUCCESS;
		c->notice_len += (uint32_t)n;
	}
	if (c->notice.magic == DDLEMU_TCP_GOODBYE) {
		s->ended = DDLEMU_TCP_CLOSED;
		return DDLEMU_SUCCESS;
	}
	if (c->notice.magic != DDLEMU_TCP_TOO_LONG)
		return fail_all(c, DDLEMU_REMOTE_ERROR, "the peer sent an unknown notice");
	return fail_too_long(c, c->notice.size, c->notice.capacity);
}

static int sender_isend(struct ddlemu_comm *comm, const void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_tcp_conn *c = (struct ddlemu_tcp_conn *)comm;
	*request = NULL;
	int bad = check_failed(c);
	if (bad)
		return bad;
	if (size >> (DDLEMU_TCP_SIZE_BITS - 1))
		return ddlemu_refuse_size(size);
	int64_t now = clock_now();
	if ((bad = read_notice(c, now)) || (bad = check_peer(c, now)))
		return bad;
	struct ddlemu_tcp_request *r = new_request(c, (char *)data, size, now);
	write_streams(c, now);
	if (r != NULL)
		*request = &r->base;
	return DDLEMU_SUCCESS;
}

static int sender_test(struct ddlemu_request *request, int *done, size_t *size)
{
	struct ddlemu_tcp_request *r = (struct ddlemu_tcp_request *)request;
	struct ddlemu_tcp_conn *c = (struct ddlemu_tcp_conn *)request->comm;
	*done = 0;
	int bad = check_failed(c);
	if (bad)
		return bad;
	if (finished(c) < c->posted) {
		int64_t now = clock_now();
		write_streams(c, now);
		if (finished(c) <= r->msg)
			return (bad = read_notice(c, now)) ? bad : check_peer(c, now);
	}
	return complete(r, done, size);
}

// --- the receiver

// receive reads a stream: up to n bytes to where they belong, and up to `ahead` bytes of what follows into the stage
// behind its tail. It says whether anything arrived.
static bool receive(struct ddlemu_tcp_stream *s, char *to, uint64_t n, uint64_t ahead, uint64_t *budget)
{
	if (s->ended)
		return false;
	if (s->head == s->tail)
		s->head = s->tail = 0;
	struct iovec v[2] = { { to, n }, { s->stage + s->tail, ahead } };
	struct msghdr m = { .msg_iov = n > 0 ? v : v + 1, .msg_iovlen = n > 0 && ahead > 0 ? 2 : 1 };
	ssize_t got = recvmsg(s->fd, &m, MSG_DONTWAIT);
	if (got <= 0) {
		if (got == 0)
			s->ended = DDLEMU_TCP_CUT;
		else
			note_errno(s);
		return false;
	}
	uint64_t in_place = min_u64((uint64_t)got, n);
	s->off += in_place;
	s->tail += (uint32_t)((uint64_t)got - in_place);
	*budget -= min_u64((uint64_t)got, *budget);
	return true;
}

// fill_stage reads a stream into its stage, at most `most` bytes more.
static bool fill_stage(struct ddlemu_tcp_stream *s, uint64_t most, uint64_t *budget)
{
	uint32_t staged = s->tail - s->head;
	memmove(s->stage, s->stage + s->head, staged);
	s->head = 0;
	s->tail = staged;
	return receive(s, NULL, 0, min_u64(most, DDLEMU_TCP_STAGE - staged), budget);
}

// Bytes that are staged together with the header of a message that is received in place. More would be copied twice for
// nothing.
#define WITH_HEADER (4 << 10)

// open_message reads the header of the next message from the stage.
static int open_message(struct ddlemu_tcp_conn *c, struct ddlemu_tcp_stream *s)
{
	uint64_t header;
	memcpy(&header, s->stage + s->head, DDLEMU_TCP_HEADER);
	s->head += DDLEMU_TCP_HEADER;
	struct ddlemu_tcp_request *r = request_of(c, c->opened);
	uint64_t size = header & (((uint64_t)1 << DDLEMU_TCP_SIZE_BITS) - 1);
	if (header == DDLEMU_TCP_GOODBYE) {
		s->ended = DDLEMU_TCP_CLOSED;
		return DDLEMU_SUCCESS;
	}
	if (header >> DDLEMU_TCP_SIZE_BITS != (c->opened & 0xffff))
		return fail_all(c, DDLEMU_REMOTE_ERROR, "the peer sent the header of another message");
	if (size > r->capacity) {
		struct ddlemu_tcp_notice n = { DDLEMU_TCP_TOO_LONG, size, r->capacity };
		// Nothing was sent back before, so the buffer has space. If not, the sender is told by the stream's
		// end.
		if (send(s->fd, &n, sizeof n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			note_errno(s);
		return fail_too_long(c, size, r->capacity);
	}
	r->size = size;
	c->opened++;
	s->off = 0;
	return DDLEMU_SUCCESS;
}

// unstage copies bytes of the stream's fragment, which is [begin, begin + size) of the message, from the stage to where
// they belong. Of ordered bytes it copies whole 128-byte lines, and the end of the fragment. It says whether it copied
// any.
static bool unstage(struct ddlemu_tcp_stream *s, const struct ddlemu_tcp_request *r, uint64_t begin, uint64_t size)
{
	uint64_t n = min_u64(s->tail - s->head, size - s->off);
	if (r->ordered && n < size - s->off) {
		uint64_t lines = (s->off + n) / DDLEMU_LINE * DDLEMU_LINE;
		n = lines - min_u64(s->off, lines);
	}
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

// read_stream reads messages from one stream, as far as receives are posted for them and the budget (bytes) reaches.
// Stream 0 carries the headers, so it opens each message before the other streams read their fragments.
static int read_stream(struct ddlemu_tcp_conn *c, uint32_t k, uint64_t *budget)
{
	struct ddlemu_tcp_stream *s = &c->stream[k];
	while (*budget > 0) {
		if (k == 0 && s->msg == c->opened) {
			if (s->msg == c->posted)
				return DDLEMU_SUCCESS;
			uint64_t most = request_of(c, s->msg)->ordered ? DDLEMU_TCP_STAGE : WITH_HEADER;
			if (s->tail - s->head < DDLEMU_TCP_HEADER && !fill_stage(s, most, budget))
				return DDLEMU_SUCCESS;
			if (s->tail - s->head < DDLEMU_TCP_HEADER)
				continue;
			int bad = open_message(c, s);
			if (bad || s->ended == DDLEMU_TCP_CLOSED)
				return bad;
		}
		if (s->msg == c->opened)
			return DDLEMU_SUCCESS;
		const struct ddlemu_tcp_request *r = request_of(c, s->msg);
		uint64_t begin, size = fragment_of(c, r->size, k, &begin);
		if (s->off == size) {
			s->msg++;
			s->off = 0;
			continue;
		}
		if (unstage(s, r, begin, size))
			continue;
		bool arrived;
		if (r->ordered)
			arrived = fill_stage(s, DDLEMU_TCP_STAGE, budget);
		else // in place; at the end of the message also the next header
			arrived = receive(s, r->data + begin + s->off, min_u64(size - s->off, *budget),
				k == 0 && size - s->off <= *budget ? DDLEMU_TCP_HEADER : 0, budget);
		if (!arrived)
			return DDLEMU_SUCCESS;
	}
	return DDLEMU_SUCCESS;
}

static int receiver_irecv(struct ddlemu_comm *comm, void *data, size_t size, struct ddlemu_request **request)
{
	struct ddlemu_tcp_conn *c = (struct ddlemu_tcp_conn *)comm;
	bool ordered = (uintptr_t)*request == DDLEMU_POLLED || __atomic_load_n(&all_polled, __ATOMIC_RELAXED);
	*request = NULL;
	int bad = check_failed(c);
	if (bad)
		return bad;
	struct ddlemu_tcp_request *r = new_request(c, data, size, 0);
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
	int bad = check_failed(c);
	if (bad)
		return bad;
	if (finished(c) <= r->msg) {
		uint64_t budget = DDLEMU_TCP_PER_CALL;
		for (uint32_t k = 0; k < c->streams; k++)
			if ((bad = read_stream(c, k, &budget)))
				return bad;
		if (budget < DDLEMU_TCP_PER_CALL)
			c->last_received = clock_now();
		if (finished(c) <= r->msg) {
			if (budget < DDLEMU_TCP_PER_CALL ||
				(!stream_end(c) && !__atomic_load_n(&c->base.dead, __ATOMIC_RELAXED)))
				return DDLEMU_SUCCESS;
			return check_peer(c, clock_now());
		}
	}
	return complete(r, done, size);
}

const struct ddlemu_ops ddlemu_tcp_sender = { .isend = sender_isend, .irecv = ddlemu_no_irecv, .test = sender_test };
const struct ddlemu_ops ddlemu_tcp_receiver = {
	.isend = ddlemu_no_isend, .irecv = receiver_irecv, .test = receiver_test
};

// --- making and ending connections

struct ddlemu_tcp_conn *ddlemu_tcp_new(const struct ddlemu_ops *ops, unsigned long id, const int *fd, uint32_t streams,
	void *state, uint64_t stats_off, int64_t patience)
{
	struct ddlemu_tcp_conn *c = calloc(1, sizeof *c);
	if (c == NULL)
		return NULL;
	c->base = (struct ddlemu_comm){ .ops = ops, .id = id };
	c->stats = (struct ddlemu_link_stats *)((char *)state + stats_off);
	c->patience = patience;
	for (; c->streams < streams; c->streams++) {
		struct ddlemu_tcp_stream *s = &c->stream[c->streams];
		s->fd = -1;
		if (ops == &ddlemu_tcp_receiver && (s->stage = malloc(DDLEMU_TCP_STAGE)) == NULL) {
			ddlemu_tcp_free(c);
			return NULL;
		}
	}
	for (uint32_t k = 0; k < streams; k++)
		c->stream[k].fd = fd[k];
	return c;
}

// say_goodbye tells the peer that this end was closed and did not die, if all messages were sent. If the goodbye is
// lost, the peer learns the same from the stream's end, after DEATH_DELAY.
static void say_goodbye(struct ddlemu_tcp_conn *c)
{
	const struct ddlemu_tcp_notice n = { .magic = DDLEMU_TCP_GOODBYE };
	bool sender = c->base.ops == &ddlemu_tcp_sender;
	if (!sender || finished(c) == c->posted)
		(void)!send(c->stream[0].fd, &n, sender ? DDLEMU_TCP_HEADER : sizeof n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void ddlemu_tcp_free(struct ddlemu_tcp_conn *c)
{
	if (c->stream[0].fd >= 0)
		say_goodbye(c);
	if (c->base.ops == &ddlemu_tcp_sender && c->posted > finished(c))
		__atomic_fetch_add(&c->stats->aborted, c->posted - finished(c), __ATOMIC_RELAXED);
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
