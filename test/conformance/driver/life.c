// SPDX-License-Identifier: Apache-2.0
//
// Cases of init, finalize, loading, and several communicators in a process.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

// NCCL calls finalize after an init that failed too (from v11 on), and a later init may succeed.
void case_failed_init(struct end *e)
{
	net_load(&e->net, e->opt->lib, e->opt->version);
	char *good = strdup(getenv("DDLEMU_PROFILE"));
	setenv("DDLEMU_PROFILE", "there-is-no-such-profile", 1);
	doing("init without a fabric");
	if (net_init(&e->net, 1) == SUCCESS)
		fail("init succeeded with a profile that does not exist");
	if (strstr(net_log(), "there-is-no-such-profile") == NULL)
		fail("a failed init does not say why: %s", net_log());
	int n = -1;
	if (net_devices(&e->net, &n) == SUCCESS && n > 0)
		fail("%d NICs after a failed init", n);
	CHECK(net_finalize(&e->net));
	setenv("DDLEMU_PROFILE", good, 1);
	meet(e, 0);
	doing("init after a failed one");
	CHECK(net_init(&e->net, 1));
	try_out(e, 0);
	CHECK(net_finalize(&e->net));
}

void case_init_again(struct end *e)
{
	begin(e);
	try_out(e, 0);
	for (int i = 0; i < 3; i++) {
		doing("finalize and init again");
		CHECK(net_finalize(&e->net));
		meet(e, 0);
		CHECK(net_init(&e->net, (uint64_t)i + 2));
		try_out(e, 0);
	}
	CHECK(net_finalize(&e->net));
}

// NCCL unloads the plugin with its last communicator, and loads it for the next.
void case_reload(struct end *e)
{
	begin(e);
	for (int i = 0; i < 3; i++) {
		try_out(e, 0);
		CHECK(net_finalize(&e->net));
		doing("dlclose and dlopen again");
		if (dlclose(e->net.lib) != 0)
			fail("dlclose: %s", dlerror());
		meet(e, 0);
		net_load(&e->net, e->opt->lib, e->opt->version);
		CHECK(net_init(&e->net, 1));
	}
	try_out(e, 0);
	CHECK(net_finalize(&e->net));
}

static void *traffic(void *arg)
{
	struct end *e = arg;
	for (int i = 0; i < 3; i++)
		try_out(e, 1);
	return NULL;
}

// Two communicators at once, each with a thread, as in NCCL. When one ends, the other goes on.
void case_two_communicators(struct end *e)
{
	pthread_t t;
	begin(e);
	struct end second = *e;
	doing("init a second communicator");
	CHECK(net_init(&second.net, 2));
	if (e->net.version >= 11 && (e->net.ctx == NULL || second.net.ctx == NULL))
		fail("init returned no context");
	if (pthread_create(&t, NULL, traffic, &second) != 0)
		fail("start a thread");
	for (int i = 0; i < 3; i++)
		try_out(e, 0);
	pthread_join(t, NULL);
	CHECK(net_finalize(&second.net));
	try_out(e, 0);
	CHECK(net_finalize(&e->net));
}

// For a communicator that was split off, NCCL calls no init: it uses the parent's context from another thread, and
// calls finalize once.
void case_split(struct end *e)
{
	pthread_t t;
	begin(e);
	void *comm = link_up(e, 0, ONE_WAY); // the parent's is open all the while
	struct buffer b = buffer_new(e, comm, 3000);
	if (pthread_create(&t, NULL, traffic, e) != 0)
		fail("start a thread");
	for (int i = 0; i < 100; i++)
		pass(e, comm, &b, 3000, 3000, NUMBER(0, i));
	pthread_join(t, NULL);
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
	CHECK(net_finalize(&e->net));
}

// With NCCL_OOB_NET_ENABLE NCCL's bootstrap uses the net, in the thread that calls init, for a ring of small messages.
// It passes no profiler handles, and no sizes to test.
void case_bootstrap(struct end *e)
{
	enum { ROUNDS = 50, SMALL = 128 };
	begin(e);
	e->net.bare = 1;
	void *out[2] = { link_up(e, 0, ONE_WAY), link_up(e, 0, BACK) }; // the ring of two ranks
	void *to = out[e->rank], *from = out[1 - e->rank];
	struct buffer a = buffer_new(e, to, SMALL), b = buffer_new(e, from, SMALL);
	for (int i = 0; i < ROUNDS; i++) {
		doing("pass round %d of the bootstrap's ring", i);
		fill(a.p, SMALL, NUMBER(e->rank, i));
		wipe(b.p, SMALL);
		void *r[2] = { NULL, NULL };
		int done[2] = { 0, 0 };
		for (int64_t begun = now_ns(); !done[0] || !done[1];) {
			if (r[0] == NULL)
				CHECK(net_isend(&e->net, to, a.p, SMALL, a.mhandle, &r[0]));
			if (r[1] == NULL)
				CHECK(net_irecv(&e->net, from, b.p, SMALL, b.mhandle, &r[1]));
			for (int k = 0; k < 2; k++)
				if (r[k] != NULL && !done[k])
					CHECK(net_test(&e->net, r[k], &done[k], NULL));
			if (now_ns() - begun > PATIENCE * 1000000000ll)
				fail("round %d of the ring is not done after %d s", i, PATIENCE);
		}
		check(b.p, SMALL, NUMBER(1 - e->rank, i));
	}
	meet(e, 0);
	buffer_free(e, to, &a);
	buffer_free(e, from, &b);
	hang_up(e, out[0], ONE_WAY);
	hang_up(e, out[1], BACK);
	CHECK(net_finalize(&e->net));
}
