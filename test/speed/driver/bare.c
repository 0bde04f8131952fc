// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "bare.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "peer.h"

enum { RING = 8 << 20, PIECE = 64 << 10, BUFFER = 64 << 20, BOUNCES = 200000 };

static size_t size, total;
static char *ring, *region;
static int sockets[2];

size_t total_of(size_t n)
{
	size_t want = n < 64 << 10 ? 64 << 20 : 512 << 20;
	return n * (want / n > 4 ? want / n : 4);
}

static void begin(size_t n)
{
	size = n;
	total = total_of(n);
}

// own is a side's own buffer, touched.
static char *own(void)
{
	char *p = malloc(BUFFER);
	if (p == NULL)
		fail("allocate");
	return memset(p, 1, BUFFER);
}

// place is where the message that begins at offset at of the stream lies: one
// after another through a buffer as large as NCCL's of some channels.
static char *place(char *base, size_t room, size_t at)
{
	return base + (room < size ? 0 : at / size % (room / size) * size);
}

static void report(const char *name, int64_t start)
{
	if (side == 1)
		printf("%s %zu %.0f\n", name, size, (double)total / ((double)(now_ns() - start) / 1e9));
	fflush(stdout);
}

// --- a ring with two copies

static void ring_send(void)
{
	uint64_t written = 0;
	char *from = own();
	barrier();
	while (written < total) {
		size_t at = written % RING,
		       room = RING - (written - __atomic_load_n(&shared->consumed, __ATOMIC_ACQUIRE));
		size_t left = size - written % size, n = left < PIECE ? left : PIECE;
		n = n < RING - at ? n : RING - at;
		unsigned rounds = 0;
		while (room < n) {
			relax(&rounds);
			room = RING - (written - __atomic_load_n(&shared->consumed, __ATOMIC_ACQUIRE));
		}
		memcpy(ring + at, place(from, BUFFER, written) + written % size, n);
		written += n;
		__atomic_store_n(&shared->written, written, __ATOMIC_RELEASE);
	}
}

static void ring_receive(void)
{
	uint64_t consumed = 0;
	char *to = own();
	barrier();
	int64_t start = now_ns();
	while (consumed < total) {
		size_t at = consumed % RING, left = size - consumed % size, n;
		unsigned rounds = 0;
		while ((n = __atomic_load_n(&shared->written, __ATOMIC_ACQUIRE) - consumed) == 0)
			relax(&rounds);
		n = n < left ? n : left;
		n = n < PIECE ? n : PIECE;
		n = n < RING - at ? n : RING - at;
		memcpy(place(to, BUFFER, consumed) + consumed % size, ring + at, n);
		consumed += n;
		__atomic_store_n(&shared->consumed, consumed, __ATOMIC_RELEASE);
	}
	report("ring", start);
}

static void ring_side(void) { side == 0 ? ring_send() : ring_receive(); }

void bare_ring(size_t n)
{
	begin(n);
	if (ring == NULL)
		ring = map_shared(RING);
	together(ring_side);
}

// --- one copy

static void memcpy_side(void)
{
	char *to = own();
	if (side == 0)
		memset(region, 2, BUFFER);
	barrier();
	int64_t start = now_ns();
	for (size_t at = 0; side == 1 && at < total; at += size)
		memcpy(place(to, BUFFER, at), place(region, BUFFER, at), size);
	report("memcpy", start);
	barrier();
}

void bare_memcpy(size_t n)
{
	begin(n);
	if (region == NULL)
		region = map_shared(BUFFER);
	together(memcpy_side);
}

static void readv_side(void)
{
	char *mine = own();
	if (side == 0) {
		shared->address = (uint64_t)mine;
		shared->pid = getpid();
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	}
	barrier();
	int64_t start = now_ns();
	for (size_t at = 0; side == 1 && at < total; at += size) {
		struct iovec to = { place(mine, BUFFER, at), size },
			     from = { place((char *)shared->address, BUFFER, at), size };
		if (process_vm_readv(shared->pid, &to, 1, &from, 1, 0) != (ssize_t)size)
			fail("process_vm_readv");
	}
	report("process_vm_readv", start);
	barrier();
}

void bare_readv(size_t n)
{
	begin(n);
	together(readv_side);
}

// --- sockets

static void socket_side(const char *name)
{
	char *mine = own();
	barrier();
	int64_t start = now_ns();
	for (size_t at = 0; at < total;) {
		size_t off = at % size;
		char *p = place(mine, BUFFER, at) + off;
		ssize_t n = side == 0 ? write(sockets[0], p, size - off) : read(sockets[1], p, size - off);
		if (n <= 0)
			fail(name);
		at += (size_t)n;
	}
	report(name, start);
}

static void unix_side(void) { socket_side("unix"); }
static void tcp_side(void) { socket_side("tcp"); }

void bare_unix(size_t n)
{
	begin(n);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
		fail("socketpair");
	together(unix_side);
	close(sockets[0]);
	close(sockets[1]);
}

void bare_tcp(size_t n)
{
	begin(n);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	int l = socket(AF_INET, SOCK_STREAM, 0), on = 1;
	sockets[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(l, (struct sockaddr *)&a, len) != 0 || listen(l, 1) != 0 ||
		getsockname(l, (struct sockaddr *)&a, &len) != 0 ||
		connect(sockets[0], (struct sockaddr *)&a, len) != 0 || (sockets[1] = accept(l, NULL, NULL)) < 0)
		fail("connect over loopback");
	setsockopt(sockets[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	together(tcp_side);
	close(l);
	close(sockets[0]);
	close(sockets[1]);
}

// --- a cache line

static void bounce_side(void)
{
	barrier();
	int64_t start = now_ns();
	for (uint64_t i = 0; i < BOUNCES; i++) {
		uint64_t mine = 2 * i + (uint64_t)side;
		unsigned rounds = 0;
		while (__atomic_load_n(&shared->ball, __ATOMIC_ACQUIRE) != mine)
			relax(&rounds);
		__atomic_store_n(&shared->ball, mine + 1, __ATOMIC_RELEASE);
	}
	if (side == 1) {
		printf("bounce 8 %.1f\n", (double)(now_ns() - start) / (2.0 * BOUNCES));
		fflush(stdout);
	}
}

void bare_bounce(void) { together(bounce_side); }
