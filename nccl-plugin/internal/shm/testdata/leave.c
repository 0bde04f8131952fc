// SPDX-License-Identifier: Apache-2.0
//
// A process leaves the time of its node on a real clock while a thread of it is in a call.
//
//	leave [stuck]
//
// It is linked with -Wl,--wrap=ddlemu_direct_make: the call lasts until the program lets it end. With "stuck" it does
// not.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../node.h"

#define DIE(...) (fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(1))

static int calls, may_end, has_left;

static void set(int *flag) { __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST); }
static int get(int *flag) { return __atomic_load_n(flag, __ATOMIC_SEQ_CST); }

static void await(int *flag)
{
	while (!get(flag))
		usleep(100);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

uint64_t __wrap_ddlemu_direct_make(struct ddlemu_clock_view *v, const struct ddlemu_direct_ends *ends)
{
	__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
	await(&may_end);
	return 7;
}

static void *make(void *ends)
{
	if (ddlemu_node_calls()->direct_make(ends) != 7)
		DIE("the call that had begun did not end as it should");
	return NULL;
}

static void *leave(void *view)
{
	ddlemu_node_leave(view);
	set(&has_left);
	return NULL;
}

int main(int argc, char **argv)
{
	static struct ddlemu_clock_flows flows;
	static struct ddlemu_link_stats stats[DDLEMU_NODE_PARTS];
	static const struct ddlemu_node_time time = { .gpus = 1 };
	static const struct ddlemu_transport transport;
	struct ddlemu_clock_view view = { .node_time = &time, .flows = &flows };
	view.engine.transport = &transport;
	struct ddlemu_direct_ends ends = { 0 };
	struct ddlemu_clock_view *joined = ddlemu_node_join(&view, stats, 1);

	pthread_t maker, leaver;
	pthread_create(&maker, NULL, make, &ends);
	await(&calls);
	const int64_t began = now();
	pthread_create(&leaver, NULL, leave, joined);
	if (argc > 1) {
		await(&has_left);
		return 0;
	}
	usleep(20000);
	const bool waits = !get(&has_left);
	if (!waits && now() - began < 500000000)
		DIE("the process has left while a thread was in a call");
	set(&may_end);
	pthread_join(maker, NULL);
	pthread_join(leaver, NULL);
	if (ddlemu_node_calls()->direct_make(&ends) != UINT64_MAX || get(&calls) != 1)
		DIE("a call after the process had left did something");
	return 0;
}
