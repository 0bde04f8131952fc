// SPDX-License-Identifier: Apache-2.0
//
// Cases of requests: how many there may be, and what the plugin writes to them.

#include "cases.h"

#define SIZE 300

// start calls isend or irecv once, depending on the rank.
static void *start(struct end *e, void *comm, struct buffer *b, void *preload)
{
	void *request = preload;
	if (e->rank == 0)
		CHECK(net_isend(&e->net, comm, b->p, SIZE, b->mhandle, &request));
	else
		CHECK(net_irecv(&e->net, comm, b->p, SIZE, b->mhandle, &request));
	return request;
}

// Both ends post as many requests as there may be. One more is refused until one is complete.
void case_outstanding(struct end *e)
{
	begin(e);
	for (int round = 0; round < 3; round++) {
		void *comm = link_up(e, 0, ONE_WAY), *request[MAX_REQUESTS];
		struct buffer b[MAX_REQUESTS];
		for (int i = 0; i < MAX_REQUESTS; i++) {
			doing("have %d requests outstanding", i + 1);
			b[i] = buffer_new(e, comm, SIZE);
			if (e->rank == 0)
				fill(b[i].p, SIZE, NUMBER(round, i));
			request[i] = e->rank == 0 ? start_send(e, comm, &b[i], SIZE) : start_recv(e, comm, &b[i], SIZE);
			for (int k = 0; k < i; k++)
				if (request[k] == request[i])
					fail("requests %d and %d are the same while both are outstanding", k, i);
		}
		for (int i = 0; i < 3; i++)
			if (start(e, comm, &b[0], (void *)2) != NULL)
				fail("request %d of one connection was accepted, want NULL", MAX_REQUESTS + 1);
		meet(e, 0);
		for (int i = 0; i < MAX_REQUESTS; i++) {
			doing("finish request %d of %d", i + 1, MAX_REQUESTS);
			finish(e, request[i], SIZE);
			if (e->rank == 1)
				check(b[i].p, SIZE, NUMBER(round, i));
		}
		// Now one more is accepted.
		pass(e, comm, &b[0], SIZE, SIZE, NUMBER(round, MAX_REQUESTS));
		meet(e, 0);
		for (int i = 0; i < MAX_REQUESTS; i++)
			buffer_free(e, comm, &b[i]);
		hang_up(e, comm, ONE_WAY);
	}
}

// NCCL leaves the last request in the variable for the next one, and from 2.24 on 0x1 for receives whose completion it
// does not need. A refused call must write NULL.
void case_requests_written(struct end *e)
{
	void *const preloads[] = { (void *)1, (void *)0xdead0, NULL };
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY), *request[MAX_REQUESTS];
	struct buffer b = buffer_new(e, comm, SIZE);
	for (int p = 0; p < 3; p++) {
		for (int i = 0; i < MAX_REQUESTS; i++) {
			doing("write request %d over %p", i, preloads[p]);
			for (int64_t begun = now_ns();;) {
				request[i] = start(e, comm, &b, preloads[p]);
				if (request[i] != NULL && request[i] == preloads[p])
					fail("a request is still %p, the value before the call", preloads[p]);
				if (request[i] != NULL)
					break;
				if (now_ns() - begun > PATIENCE * 1000000000ll)
					fail("no request after %d s", PATIENCE);
			}
		}
		void *refused = start(e, comm, &b, preloads[p]);
		if (refused != NULL)
			fail("the request of a refused call is %p where %p was before, want NULL", refused,
				preloads[p]);
		meet(e, 0);
		for (int i = 0; i < MAX_REQUESTS; i++)
			finish(e, request[i], SIZE);
	}
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}

void case_test_without_sizes(struct end *e)
{
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY);
	struct buffer b = buffer_new(e, comm, SIZE);
	for (int i = 0; i < 20; i++) {
		doing("test message %d without sizes", i);
		if (e->rank == 0)
			fill(b.p, SIZE, NUMBER(0, i));
		void *request = e->rank == 0 ? start_send(e, comm, &b, SIZE) : start_recv(e, comm, &b, SIZE);
		int done = 0;
		for (int64_t begun = now_ns(); !done;) {
			CHECK(net_test(&e->net, request, &done, NULL));
			if (now_ns() - begun > PATIENCE * 1000000000ll)
				fail("message %d is not done after %d s", i, PATIENCE);
		}
		if (e->rank == 1)
			check(b.p, SIZE, NUMBER(0, i));
	}
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}
