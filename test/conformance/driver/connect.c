// SPDX-License-Identifier: Apache-2.0
//
// Cases that make connections.

#include <string.h>

#include "cases.h"

// accept returns at once, without a comm, until somebody has connected.
void case_connect(struct end *e)
{
	char handle[HANDLE_SIZE];
	begin(e);
	if (e->rank == 1) {
		void *l = listen_at(e, handle), *comm = (void *)1;
		for (int i = 0; i < 100; i++) {
			CHECK(net_accept(&e->net, l, &comm));
			if (comm != NULL)
				fail("accept returned a comm although nobody has connected");
			comm = (void *)1;
		}
		CHECK(net_close_listen(&e->net, l));
	}
	meet(e, 0);
	for (int i = 0; i < 4; i++)
		try_out(e, 0);
}

// Several connections to one listener, open at the same time.
void case_accept_several(struct end *e)
{
	char handle[HANDLE_SIZE], copy[HANDLE_SIZE];
	void *comm[3];
	begin(e);
	if (e->rank == 1) {
		void *l = listen_at(e, handle);
		put(e, 0, handle, sizeof handle);
		for (int i = 0; i < 3; i++) {
			comm[i] = answer(e, l);
			meet(e, 0);
		}
		CHECK(net_close_listen(&e->net, l));
	} else {
		get(e, 0, handle, sizeof handle);
		for (int i = 0; i < 3; i++) {
			memcpy(copy, handle, sizeof copy);
			comm[i] = dial(e, copy);
			meet(e, 0);
		}
	}
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < i; k++)
			if (comm[i] == comm[k])
				fail("two connections have the same comm");
	for (int i = 2; i >= 0; i--) {
		struct buffer b = buffer_new(e, comm[i], 5000);
		pass(e, comm[i], &b, 5000, 5000, NUMBER(i, 0));
		meet(e, 0);
		buffer_free(e, comm[i], &b);
	}
	for (int i = 0; i < 3; i++)
		hang_up(e, comm[i], ONE_WAY);
}

#define GUARD 64

// The handle is all that connect needs: 128 bytes, copied. listen's memory is not used again, and each copy of the
// handle works for a connection.
void case_handle(struct end *e)
{
	char memory[GUARD + HANDLE_SIZE + GUARD], *handle = memory + GUARD, pure[HANDLE_SIZE];
	void *comm[2];
	begin(e);
	wipe(memory, sizeof memory);
	if (e->rank == 1) {
		void *l = listen_at(e, handle);
		put(e, 0, handle, HANDLE_SIZE);
		wipe(handle, HANDLE_SIZE);
		for (int i = 0; i < 2; i++)
			comm[i] = answer(e, l);
		CHECK(net_close_listen(&e->net, l));
		check_wiped(handle, HANDLE_SIZE, "of listen's handle after it returned");
	} else {
		get(e, 0, pure, HANDLE_SIZE);
		for (int i = 0; i < 2; i++) {
			memcpy(handle, pure, HANDLE_SIZE);
			comm[i] = dial(e, handle);
			wipe(handle, HANDLE_SIZE);
		}
		meet(e, 0);
		check_wiped(handle, HANDLE_SIZE, "of connect's handle after it returned a comm");
	}
	if (e->rank == 1)
		meet(e, 0);
	check_wiped(memory, GUARD, "in front of the handle");
	check_wiped(handle + HANDLE_SIZE, GUARD, "behind the handle");
	for (int i = 0; i < 2; i++) {
		struct buffer b = buffer_new(e, comm[i], 100);
		pass(e, comm[i], &b, 100, 100, NUMBER(i, 0));
		meet(e, 0);
		buffer_free(e, comm[i], &b);
		hang_up(e, comm[i], ONE_WAY);
	}
}

// Wrong arguments give an error, and the next correct call works.
void case_wrong_arguments(struct end *e)
{
	char handle[HANDLE_SIZE];
	void *comm = NULL;
	begin(e);
	if (net_listen(&e->net, 1, handle, &comm) == SUCCESS || net_listen(&e->net, -1, handle, &comm) == SUCCESS)
		fail("listen on a NIC that does not exist succeeded");
	wipe(handle, sizeof handle);
	if (net_connect(&e->net, 0, handle, &comm) == SUCCESS)
		fail("connect with an invalid handle succeeded");
	if (strstr(net_log(), "handle") == NULL)
		fail("connect with an invalid handle: the log does not say so: %s", net_log());
	void *l = listen_at(e, handle);
	int result = SUCCESS;
	for (int64_t begun = now_ns(); result == SUCCESS && now_ns() - begun < PATIENCE * 1000000000ll;)
		if ((result = net_connect(&e->net, 0, handle, &comm)) == SUCCESS && comm != NULL)
			fail("a process connected to itself, over a link between nodes");
	if (result == SUCCESS)
		fail("connect to the same node returned neither a comm nor an error");
	CHECK(net_close_listen(&e->net, l));

	comm = link_up(e, 0, ONE_WAY);
	struct buffer b = buffer_new(e, comm, 4096);
	void *request = NULL, *mhandle = NULL;
	if (net_reg_mr(&e->net, comm, b.p, b.size, MEMORY_CUDA, &mhandle) == SUCCESS)
		fail("regMr accepted device memory, which getProperties does not offer");
	if (e->rank == 1 && net_irecv_n(&e->net, comm, 2, b.p, b.size, b.mhandle, &request) == SUCCESS)
		fail("a grouped receive succeeded although maxRecvs is 1");
	request = NULL;
	result = e->rank == 1 ? net_isend(&e->net, comm, b.p, 8, b.mhandle, &request)
			      : net_irecv(&e->net, comm, b.p, 8, b.mhandle, &request);
	if (result == SUCCESS)
		fail("a connection accepted a message in the wrong direction");
	pass(e, comm, &b, 77, b.size, NUMBER(0, 0));
	meet(e, 0);
	buffer_free(e, comm, &b);
	hang_up(e, comm, ONE_WAY);
}
