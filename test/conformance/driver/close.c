// SPDX-License-Identifier: Apache-2.0
//
// Cases that end connections, after the last message and before.

#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

#define DEEP 4
#define BIG (4 << 20) // with DEEP more than the calls before the close copy

// start_some starts requests until one is refused, DEEP at most.
static void start_some(struct end *e, void *comm, struct buffer *b, void **request)
{
	for (int i = 0; i < DEEP; i++) {
		b[i] = buffer_new(e, comm, BIG);
		request[i] = NULL;
		if (e->rank == 0)
			CHECK(net_isend(&e->net, comm, b[i].p, BIG, b[i].mhandle, &request[i]));
		else
			CHECK(net_irecv(&e->net, comm, b[i].p, BIG, b[i].mhandle, &request[i]));
	}
}

// Connections are closed while sends and receives are not complete, as in an abort. The peer's and this process's other
// connections go on.
void case_close_in_flight(struct end *e)
{
	begin(e);
	for (int round = 0; round < 4; round++) {
		void *comm = link_up(e, 0, ONE_WAY), *request[DEEP];
		struct buffer b[DEEP];
		doing("close with requests in flight");
		if (round == 3 || e->rank == round % 2) // by one rank, by the other, by both
			start_some(e, comm, b, request);
		else
			memset(b, 0, sizeof b);
		meet(e, 0); // a call after the peer's close would fail, and rightly
		int polled = 0, size;
		for (int i = 0; i < DEEP && round == 3; i++)
			if (request[i] != NULL)
				net_test(&e->net, request[i], &polled, &size); // some of it is under way
		for (int i = 0; i < DEEP; i++)
			if (b[i].p != NULL)
				buffer_free(e, comm, &b[i]);
		hang_up(e, comm, ONE_WAY);
		meet(e, 0);
		try_out(e, 0);
	}
}

// After deregMr NCCL frees the memory, and closes the connection later. The plugin must not access the memory any more,
// whatever other calls are made.
void case_dereg_fences(struct end *e)
{
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY), *other = link_up(e, 0, ONE_WAY), *request[DEEP];
	struct buffer b[DEEP], small = buffer_new(e, other, 1000);
	start_some(e, comm, b, request);
	meet(e, 0);
	int done = 0, size;
	for (int i = 0; i < 3; i++)
		CHECK(net_test(&e->net, request[0], &done, &size)); // some bytes have been copied, others not
	doing("go on after deregMr");
	for (int i = 0; i < DEEP; i++) {
		CHECK(net_dereg_mr(&e->net, comm, b[i].mhandle));
		buffer_forbid(&b[i]);
	}
	for (int i = 0; i < 200; i++)
		pass(e, other, &small, 1000, 1000, NUMBER(1, i));
	hang_up(e, comm, ONE_WAY);
	for (int i = 0; i < 50; i++)
		pass(e, other, &small, 1000, 1000, NUMBER(1, 200 + i));
	meet(e, 0);
	buffer_free(e, other, &small);
	hang_up(e, other, ONE_WAY);
}

// Messages that were sent completely before the close still arrive. The next receive fails.
void case_peer_closes(struct end *e)
{
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY), *request[DEEP + 1] = { NULL };
	struct buffer b[DEEP + 1];
	for (int i = 0; i <= DEEP; i++) {
		b[i] = buffer_new(e, comm, 2000);
		if (e->rank == 0)
			fill(b[i].p, 2000, NUMBER(0, i));
		else
			request[i] = start_recv(e, comm, &b[i], 2000);
	}
	meet(e, 0);
	doing("receive what was sent before the peer closed");
	if (e->rank == 0) {
		for (int i = 0; i < DEEP; i++)
			request[i] = start_send(e, comm, &b[i], 2000);
		for (int i = 0; i < DEEP; i++)
			finish(e, request[i], 2000);
	} else {
		meet(e, 0);
		for (int i = 0; i < DEEP; i++) {
			finish(e, request[i], 2000);
			check(b[i].p, 2000, NUMBER(0, i));
		}
		int result = SUCCESS, done = 0, size;
		for (int64_t begun = now_ns();
			result == SUCCESS && !done && now_ns() - begun < PATIENCE * 1000000000ll;)
			result = net_test(&e->net, request[DEEP], &done, &size);
		if (result != REMOTE)
			fail("a receive from a peer that closed: test returned %d, done %d, want %d (ncclRemoteError)",
				result, done, REMOTE);
		if (strstr(net_log(), "closed") == NULL)
			fail("a receive from a peer that closed: the log does not name the reason: %s", net_log());
		for (int i = 0; i < 10 && net_test(&e->net, request[DEEP], &done, &size) == REMOTE; i++)
			;
		if (strstr(strstr(net_log(), "closed") + 1, "closed") != NULL)
			fail("a receive from a peer that closed: the log repeats the reason: %s", net_log());
	}
	for (int i = 0; i <= DEEP; i++)
		buffer_free(e, comm, &b[i]);
	hang_up(e, comm, ONE_WAY);
	if (e->rank == 0)
		meet(e, 0);
}

// open_files counts the open descriptors of this process.
static int open_files(void)
{
	int n = 0;
	DIR *d = opendir("/proc/self/fd");
	while (d != NULL && readdir(d) != NULL)
		n++;
	if (d != NULL)
		closedir(d);
	return n;
}

// mappings counts the connections' mappings in this process.
static int mappings(void)
{
	char line[512];
	int n = 0;
	FILE *f = fopen("/proc/self/maps", "r");
	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		n += strstr(line, "memfd:") != NULL;
	if (f != NULL)
		fclose(f);
	return n;
}

#define MADE 16

// Closed connections leave no descriptor and no mapping. Only the first connections may: Go's runtime keeps some
// descriptors.
void case_descriptors(struct end *e)
{
	begin(e);
	for (int i = 0; i < 2; i++)
		try_out(e, 0);
	usleep(100000); // the other ends of the first connections are closed in passing
	meet(e, 0);
	int files = open_files(), maps = mappings();
	for (int i = 0; i < MADE; i++)
		try_out(e, 0);
	doing("close all descriptors");
	for (int64_t begun = now_ns(); open_files() > files || mappings() > maps; usleep(10000))
		if (now_ns() - begun > 5000000000ll)
			fail("%d connections were made and closed: %d more file descriptors and %d more mappings than before",
				MADE, open_files() - files, mappings() - maps);
	meet(e, 0);
}
