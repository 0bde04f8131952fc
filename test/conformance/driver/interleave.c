// SPDX-License-Identifier: Apache-2.0
//
// A property: in whatever order the calls on 16 connections are made, 8 in each direction, every connection carries its
// messages unchanged and in order. The seed determines each rank's calls.

#include "cases.h"

#include <sched.h>
#include <string.h>

#define CONNECTIONS 16
#define DEEPEST 8 // requests outstanding on one connection
#define LARGEST (64 << 10)

static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

// size_of is the size of a message: both ranks compute it.
static size_t size_of(uint64_t seed, int connection, int message)
{
	static const size_t edges[] = { 0, 1, 7, 8, 127, 128, 129, 4095, 4096, 4097, LARGEST - 1, LARGEST };
	uint64_t state = seed ^ NUMBER(connection + 1, message);
	uint64_t d = draw(&state);
	if (d % 3 == 0)
		return edges[draw(&state) % (sizeof edges / sizeof *edges)];
	return draw(&state) % (d % 3 == 1 ? 1000 : LARGEST);
}

struct way {
	void *comm;
	int from;
	int posted, done, depth; // messages; how many may be outstanding
	struct buffer b[DEEPEST];
	void *request[DEEPEST];
	size_t capacity[DEEPEST];
	int message[DEEPEST]; // -1: the slot is free
};

struct plan {
	uint64_t seed, calls; // calls: this rank's draws
	int messages; // on each connection
	struct way way[CONNECTIONS];
};

static void post(struct end *e, struct plan *p, int c)
{
	struct way *w = &p->way[c];
	int k = 0, m = w->posted;
	if (m == p->messages || m - w->done >= w->depth)
		return;
	while (w->message[k] >= 0)
		k++;
	size_t size = size_of(p->seed, c, m);
	void *request = (void *)2;
	if (e->rank == w->from) {
		fill(w->b[k].p, size, NUMBER(c, m));
		CHECK(net_isend(&e->net, w->comm, w->b[k].p, size, w->b[k].mhandle, &request));
	} else {
		w->capacity[k] = size + draw(&p->calls) % (LARGEST - size + 1);
		wipe(w->b[k].p, LARGEST);
		CHECK(net_irecv(&e->net, w->comm, w->b[k].p, w->capacity[k], w->b[k].mhandle, &request));
	}
	if (request == NULL)
		return;
	w->request[k] = request;
	w->message[k] = m;
	w->posted++;
}

// poll tests one outstanding request, not always the oldest.
static int poll(struct end *e, struct plan *p, int c)
{
	struct way *w = &p->way[c];
	int k = (int)(draw(&p->calls) % DEEPEST), m = w->message[k];
	if (m < 0)
		return 0;
	size_t size = size_of(p->seed, c, m);
	if (!has_come(e, w->from, w->request[k], &w->b[k], size, NUMBER(c, m)))
		return 0;
	if (e->rank != w->from)
		check_wiped(w->b[k].p + size, LARGEST - size, "behind a message");
	w->message[k] = -1;
	return 1;
}

static void interleave(struct end *e, uint64_t seed, int messages)
{
	static __thread struct plan p;
	p = (struct plan){ .seed = seed, .calls = seed * 2 + (uint64_t)e->rank, .messages = messages };
	for (int c = 0; c < CONNECTIONS; c++) {
		struct way *w = &p.way[c];
		w->from = c % 2;
		w->comm = link_up(e, 0, w->from);
		w->depth = 1 + (int)(draw(&p.calls) % DEEPEST);
		for (int k = 0; k < DEEPEST; k++) {
			w->b[k] = buffer_new(e, w->comm, LARGEST);
			w->message[k] = -1;
		}
	}
	int left = CONNECTIONS * messages;
	for (int64_t moved = now_ns(); left > 0;) {
		int c = (int)(draw(&p.calls) % CONNECTIONS);
		doing("seed %llu: pass message %d of %d on connection %d", (unsigned long long)seed, p.way[c].done,
			messages, c);
		if (draw(&p.calls) % 3 == 0) {
			post(e, &p, c);
		} else if (poll(e, &p, c)) {
			p.way[c].done++;
			left--;
			moved = now_ns();
		}
		if (draw(&p.calls) % 16 == 0)
			sched_yield();
		if (now_ns() - moved > PATIENCE * 1000000000ll)
			fail("seed %llu: no message was completed for %d s, %d messages remain",
				(unsigned long long)seed, PATIENCE, left);
	}
	meet(e, 0);
	for (int c = 0; c < CONNECTIONS; c++) {
		struct way *w = &p.way[c];
		for (int k = 0; k < DEEPEST; k++)
			buffer_free(e, w->comm, &w->b[k]);
		hang_up(e, w->comm, w->from);
	}
}

void case_interleave(struct end *e)
{
	begin(e);
	interleave(e, e->opt->seed, 40);
}

void case_interleave_long(struct end *e)
{
	begin(e);
	for (uint64_t i = 1; i <= 3; i++)
		interleave(e, e->opt->seed + i, 100);
}
