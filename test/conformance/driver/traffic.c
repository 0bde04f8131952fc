// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "traffic.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

// fail_if_slow fails the case when too much time has passed since `begin`.
static void fail_if_slow(int64_t begin, const char *what)
{
	if (now_ns() - begin > PATIENCE * 1000000000ll)
		fail("%s: not after %d s", what, PATIENCE);
	sched_yield(); // as NCCL does after a round without progress
}

// --- connections

void *listen_at(struct end *e, void *handle)
{
	void *l = NULL;
	doing("listen");
	CHECK(net_listen(&e->net, 0, handle, &l));
	if (l == NULL)
		fail("listen returned NULL");
	return l;
}

void *dial(struct end *e, void *handle)
{
	doing("connect");
	for (int64_t begin = now_ns();; fail_if_slow(begin, "connect")) {
		void *comm = (void *)1;
		CHECK(net_connect(&e->net, 0, handle, &comm));
		if (comm == (void *)1)
			fail("connect did not write its comm");
		if (comm != NULL)
			return comm;
	}
}

void *answer(struct end *e, void *listen)
{
	doing("accept");
	for (int64_t begin = now_ns();; fail_if_slow(begin, "accept")) {
		void *comm = (void *)1;
		CHECK(net_accept(&e->net, listen, &comm));
		if (comm == (void *)1)
			fail("accept did not write its comm");
		if (comm != NULL)
			return comm;
	}
}

void *link_up(struct end *e, int lane, int from)
{
	char handle[HANDLE_SIZE];
	if (e->rank == from) {
		get(e, lane, handle, sizeof handle);
		return dial(e, handle);
	}
	void *l = listen_at(e, handle);
	put(e, lane, handle, sizeof handle);
	void *comm = answer(e, l);
	CHECK(net_close_listen(&e->net, l));
	return comm;
}

void hang_up(struct end *e, void *comm, int from)
{
	doing("close");
	CHECK(e->rank == from ? net_close_send(&e->net, comm) : net_close_recv(&e->net, comm));
}

// --- memory

struct buffer buffer_new(struct end *e, void *comm, size_t size)
{
	struct buffer b = { .size = size, .mapped = (size + 4095) / 4096 * 4096 + 4096 };
	b.p = mmap(NULL, b.mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b.p == MAP_FAILED)
		fail("map %zu bytes: %s", b.mapped, strerror(errno));
	CHECK(net_reg_mr(&e->net, comm, b.p, size, MEMORY_HOST, &b.mhandle));
	if (b.mhandle == NULL)
		fail("regMr returned NULL, which means failure to NCCL");
	return b;
}

void buffer_free(struct end *e, void *comm, struct buffer *b)
{
	CHECK(net_dereg_mr(&e->net, comm, b->mhandle));
	munmap(b->p, b->mapped);
}

void buffer_forbid(struct buffer *b)
{
	if (mprotect(b->p, b->mapped, PROT_NONE) != 0)
		fail("mprotect: %s", strerror(errno));
}

static uint64_t word(uint64_t number, uint64_t i)
{
	uint64_t z = number * 0x9e3779b97f4a7c15ull + i * 0xd1342543de82ef95ull + 1;
	z = (z ^ z >> 32) * 0xd6e8feb86659fd93ull;
	return z ^ z >> 32;
}

void fill(char *p, size_t n, uint64_t number)
{
	for (size_t at = 0; at < n; at += 8) {
		uint64_t w = word(number, at);
		memcpy(p + at, &w, n - at < 8 ? n - at : 8);
	}
}

// matching counts the first bytes of n that are equal to the message's.
static size_t matching(const char *p, size_t n, uint64_t number)
{
	for (size_t at = 0; at < n; at += 8) {
		uint64_t w = word(number, at);
		if (memcmp(p + at, &w, n - at < 8 ? n - at : 8) == 0)
			continue;
		while (at < n && p[at] == (char)(w >> 8 * (at % 8)))
			at++;
		return at;
	}
	return n;
}

void check(const char *p, size_t n, uint64_t number)
{
	size_t good = matching(p, n, number);
	if (good == n)
		return;
	unsigned connection = (unsigned)(number >> 32);
	for (uint64_t other = 1; other < 64 && n >= 3; other++)
		if (matching(p, n, number + other) == n)
			fail("connection %u: message %u arrived in the place of message %u, which is lost", connection,
				(unsigned)(number + other), (unsigned)number);
	fail("connection %u: byte %zu of %zu of message %u was changed on the way", connection, good, n,
		(unsigned)number);
}

#define WIPED ((char)0xa5)

void wipe(char *p, size_t n) { memset(p, WIPED, n); }

void check_wiped(const char *p, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != WIPED)
			fail("byte %zu %s was written", i, what);
}

// --- messages

void *start_send(struct end *e, void *comm, struct buffer *b, size_t size)
{
	for (int64_t begin = now_ns();; fail_if_slow(begin, "isend")) {
		void *request = (void *)2; // whatever NCCL left there
		CHECK(net_isend(&e->net, comm, b->p, size, b->mhandle, &request));
		if (request == (void *)2)
			fail("isend did not write its request");
		if (request != NULL)
			return request;
	}
}

void *start_recv(struct end *e, void *comm, struct buffer *b, size_t capacity)
{
	for (int64_t begin = now_ns();; fail_if_slow(begin, "irecv")) {
		void *request = (void *)2;
		CHECK(net_irecv(&e->net, comm, b->p, capacity, b->mhandle, &request));
		if (request == (void *)2)
			fail("irecv did not write its request");
		if (request != NULL)
			return request;
	}
}

int is_done(struct end *e, void *request, size_t size)
{
	int done = 77, n = -1;
	CHECK(net_test(&e->net, request, &done, &n));
	if (done != 0 && done != 1)
		fail("test set done to %d", done);
	if (done && n != (int)size)
		fail("test reported %d bytes, want %zu", n, size);
	return done;
}

int has_come(struct end *e, int sender, void *request, struct buffer *b, size_t size, uint64_t number)
{
	int done = 0, got = -1;
	CHECK(net_test(&e->net, request, &done, &got));
	if (!done)
		return 0;
	if (e->rank != sender && got > 0)
		check(b->p, (size_t)got < size ? (size_t)got : size, number);
	if (got != (int)size)
		fail("connection %u: %d bytes arrived for message %u of %zu bytes, which is lost or cut",
			(unsigned)(number >> 32), got, (unsigned)number, size);
	return 1;
}

void finish(struct end *e, void *request, size_t size)
{
	for (int64_t begin = now_ns(); !is_done(e, request, size);)
		fail_if_slow(begin, e->rank == 0 ? "rank 0's message" : "rank 1's message");
}

void pass(struct end *e, void *comm, struct buffer *b, size_t size, size_t capacity, uint64_t number)
{
	doing("pass message %u of connection %u, %zu bytes", (unsigned)number, (unsigned)(number >> 32), size);
	if (e->rank == 0) {
		fill(b->p, size, number);
		finish(e, start_send(e, comm, b, size), size);
		return;
	}
	wipe(b->p, b->size);
	finish(e, start_recv(e, comm, b, capacity), size);
	check(b->p, size, number);
	check_wiped(b->p + size, b->size - size, "behind the message");
}

void try_out(struct end *e, int lane)
{
	void *comm = link_up(e, lane, ONE_WAY);
	struct buffer b = buffer_new(e, comm, 100000);
	for (int i = 0; i < 5; i++)
		pass(e, comm, &b, (size_t)i * 23456, b.size, NUMBER(lane, i));
	meet(e, lane); // before a close that could take the last message along
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}
