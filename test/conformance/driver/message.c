// SPDX-License-Identifier: Apache-2.0
//
// Cases of messages: their sizes, order and times.

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

void case_sizes(struct end *e)
{
	static const size_t sizes[] = { 0, 1, 7, 8, 120, 127, 128, 129, 4096, 65535, 65536, 65537, 1 << 20, 0, 3 };
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY);
	struct buffer b = buffer_new(e, comm, (1 << 20) + 4096);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		pass(e, comm, &b, sizes[i], sizes[i], NUMBER(0, i));
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}

// The largest message that NCCL sends.
void case_gibibyte(struct end *e)
{
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY);
	struct buffer b = buffer_new(e, comm, 1 << 30);
	pass(e, comm, &b, 1 << 30, 1 << 30, NUMBER(0, 0));
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}

void case_receive_larger(struct end *e)
{
	static const size_t sizes[][2] = { { 0, 1 }, { 1, 4096 }, { 4096, 5000 }, { 16 << 10, 17 << 10 },
		{ 1 << 20, 2 << 20 }, { 127, 2 << 20 } };
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY);
	struct buffer b = buffer_new(e, comm, 2 << 20);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		pass(e, comm, &b, sizes[i][0], sizes[i][1], NUMBER(0, i));
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}

// until_error polls a request until test fails.
static int until_error(struct end *e, void *request)
{
	for (int64_t begun = now_ns(); now_ns() - begun < PATIENCE * 1000000000ll;) {
		int done = 0, size = 0, result = net_test(&e->net, request, &done, &size);
		if (result != SUCCESS)
			return result;
		if (done)
			fail("a message of 17000 bytes was received in a receive of 16000: %d bytes", size);
	}
	return SUCCESS;
}

// isend_until_error repeats a send until it fails. On the kernel datapath a send may be complete before the receiver
// sees its size; then one of the next calls fails.
static int isend_until_error(struct end *e, void *comm, struct buffer *b, size_t size)
{
	for (int64_t begun = now_ns(); now_ns() - begun < PATIENCE * 1000000000ll;) {
		int done = 0, got = 0;
		void *request = NULL;
		int result = net_isend(&e->net, comm, b->p, size, b->mhandle, &request);
		while (result == SUCCESS && request != NULL && !done)
			result = net_test(&e->net, request, &done, &got);
		if (result != SUCCESS)
			return result;
		if (done && getenv("DDLEMU_STREAMS") == NULL)
			fail("a message of %zu bytes was sent into a smaller receive", size);
	}
	return SUCCESS;
}

void case_send_larger(struct end *e)
{
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY);
	struct buffer b = buffer_new(e, comm, 20000);
	wipe(b.p, b.size);
	doing("pass a message that is longer than its receive");
	int result =
		e->rank == 0 ? isend_until_error(e, comm, &b, 17000) : until_error(e, start_recv(e, comm, &b, 16000));
	if (result != INVALID_USAGE)
		fail("a message longer than its receive: test returned %d, want %d (ncclInvalidUsage)", result,
			INVALID_USAGE);
	if (strstr(net_log(), "17000") == NULL || strstr(net_log(), "16000") == NULL)
		fail("a message longer than its receive: the log does not name both sizes, 17000 and 16000: %s",
			net_log());
	check_wiped(b.p + 16000, b.size - 16000, "behind the receive");
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}

// A message of -1 bytes is refused. Until version 8 of the net API a size is an int. The connection goes on.
void case_size_refused(struct end *e)
{
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY), *request = NULL;
	struct buffer b = buffer_new(e, comm, 2000);
	doing("refuse a message of -1 bytes");
	int result = e->rank == 0 ? net_isend(&e->net, comm, b.p, (size_t)-1, b.mhandle, &request)
				  : net_irecv(&e->net, comm, b.p, (size_t)-1, b.mhandle, &request);
	if (result != INVALID_USAGE || request != NULL)
		fail("a message of -1 bytes: result %d, want %d (ncclInvalidUsage); request %p", result, INVALID_USAGE,
			request);
	if (strstr(net_log(), "too long") == NULL)
		fail("a message of -1 bytes: the log does not say that it is too long: %s", net_log());
	finish(e, e->rank == 0 ? start_send(e, comm, &b, 2000) : start_recv(e, comm, &b, 2000), 2000);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}

// Many messages in flight arrive in the order of the sends, each in the receive with the same number.
void case_order(struct end *e)
{
	enum { MESSAGES = 400, WINDOW = MAX_REQUESTS, LARGEST = 20000 };
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY), *request[WINDOW];
	struct buffer b[WINDOW];
	for (int i = 0; i < WINDOW; i++)
		b[i] = buffer_new(e, comm, LARGEST);
	doing("pass %d messages in order", MESSAGES);
	for (int i = 0; i < MESSAGES + WINDOW; i++) {
		int k = i % WINDOW;
		if (i >= WINDOW) {
			int n = i - WINDOW;
			size_t size = 8 + (size_t)n * 7919 % (LARGEST - 8);
			for (int64_t begun = now_ns(); !has_come(e, ONE_WAY, request[k], &b[k], size, NUMBER(0, n));)
				if (now_ns() - begun > PATIENCE * 1000000000ll)
					fail("message %d of %d is lost: it has not arrived after %d s", n, MESSAGES,
						PATIENCE);
		}
		if (i < MESSAGES) {
			size_t size = 8 + (size_t)i * 7919 % (LARGEST - 8);
			if (e->rank == 0)
				fill(b[k].p, size, NUMBER(0, i));
			else
				wipe(b[k].p, LARGEST);
			request[k] =
				e->rank == 0 ? start_send(e, comm, &b[k], size) : start_recv(e, comm, &b[k], LARGEST);
		}
	}
	meet(e, 0);
	for (int i = 0; i < WINDOW; i++)
		buffer_free(e, comm, &b[i]);
	hang_up(e, comm, ONE_WAY);
}

#define LATENCY 20000000ll // ns, of the link that main.c gives the case
#define HERE 1 // every byte of a message that has arrived

// A message in flight, as receivers see it that poll its bytes (LL and LL128).
struct sight {
	const volatile uint64_t *p;
	size_t words;
	int64_t sent; // when isend was about to be called
	int over; // atomic
};

// look fails the case if bytes are visible before the latency has passed, or before the bytes in front of them. It
// reads from the end to the beginning: when it has seen a byte, it must see all bytes in front of it too.
static void look(const struct sight *s)
{
	size_t seen = s->words;
	for (size_t i = s->words; i-- > 0;) {
		if (s->p[i] == HERE * 0x0101010101010101u)
			seen = i;
		else if (seen < s->words)
			fail("bytes %zu to %zu of %zu were written after later bytes", 8 * i, 8 * i + 7, 8 * s->words);
	}
	int64_t age = now_ns() - s->sent;
	if (age < LATENCY && seen < s->words)
		fail("%zu of %zu bytes were written before they were due: %lld us after isend, on a link of %lld us",
			8 * (s->words - seen), 8 * s->words, (long long)age / 1000, LATENCY / 1000);
}

// observe looks while another thread calls test, which copies.
static void *observe(void *arg)
{
	struct sight *s = arg;
	while (!__atomic_load_n(&s->over, __ATOMIC_ACQUIRE))
		look(s);
	return NULL;
}

static void watch(struct end *e, void *comm, struct buffer *b, size_t size)
{
	pthread_t observer;
	wipe(b->p, b->size);
	struct sight s = { .p = (const volatile uint64_t *)(const void *)b->p, .words = size / 8 };
	void *request = start_recv(e, comm, b, size);
	get(e, 0, &s.sent, sizeof s.sent);
	if (pthread_create(&observer, NULL, observe, &s) != 0)
		fail("start a thread");
	for (int done = 0; !done;) {
		done = is_done(e, request, size);
		if (done && now_ns() - s.sent < LATENCY)
			fail("test reported a message as complete before it was due");
		if (!done)
			look(&s);
	}
	__atomic_store_n(&s.over, 1, __ATOMIC_RELEASE);
	pthread_join(observer, NULL);
	for (size_t i = 0; i < size; i++)
		if (b->p[i] != HERE)
			fail("byte %zu of %zu was changed on the way", i, size);
}

void case_nothing_early(struct end *e)
{
	static const size_t sizes[] = { 8, 128, 4096, 65536 };
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY);
	struct buffer b = buffer_new(e, comm, 65536);
	for (int i = 0; i < 40; i++) {
		size_t n = sizes[i < 4 ? i : 3];
		doing("pass %zu bytes over a slow link", n);
		if (e->rank == 1) {
			meet(e, 1);
			watch(e, comm, &b, n);
			continue;
		}
		memset(b.p, HERE, n);
		meet(e, 1);
		int64_t sent = now_ns();
		void *request = start_send(e, comm, &b, n);
		put(e, 0, &sent, sizeof sent);
		finish(e, request, n);
	}
	meet(e, 1);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}

// A flush returns no request, or one that completes.
void case_flush(struct end *e)
{
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY);
	struct buffer b = buffer_new(e, comm, 4096);
	pass(e, comm, &b, 4096, 4096, NUMBER(0, 0));
	if (e->rank == 1) {
		void *request = (void *)2;
		CHECK(net_iflush(&e->net, comm, b.p, 4096, b.mhandle, &request));
		if (request == (void *)2)
			fail("iflush did not write its request");
		int done = request == NULL;
		for (int64_t begun = now_ns(); !done && now_ns() - begun < PATIENCE * 1000000000ll;)
			CHECK(net_test(&e->net, request, &done, NULL));
		if (!done)
			fail("a flush is not done after %d s", PATIENCE);
	}
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}
