// SPDX-License-Identifier: Apache-2.0
//
// A profiler of a user, of version VERSION (4 or 6). It checks that it gets its own handles and contexts back, and
// writes the number of events of each kind into the file that PROFILER_COUNTS names.

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../../nccl-plugin/profiler_abi.h"

enum { MAGIC = 0x5eed };

struct event {
	uint64_t magic, type;
};

static char context_of_mine;
static uint64_t counts[16], stops, waits, wrong;

static void check(const struct event *e)
{
	if (e != NULL && e->magic != MAGIC)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static int start(void *context, void **handle, struct prof_event *e)
{
	uint64_t type = VERSION < 5 ? (uint8_t)e->type : e->type;
	// By PXN, NCCL sends for communicators of another process.
	const int may_be_foreign = type == PROF_PROXY_OP || type == PROF_PROXY_STEP;
	if (context != &context_of_mine && !(context == NULL && may_be_foreign))
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	check(e->parent);
	if (type == PROF_COLL) {
		const struct event *group = VERSION < 5 ? e->parent : e->coll_v4.group;
		if (group == NULL || group->magic != MAGIC || group->type != PROF_GROUP)
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	}
	struct event *mine = malloc(sizeof *mine);
	*mine = (struct event){ MAGIC, type };
	*handle = mine;
	__atomic_add_fetch(&counts[__builtin_ctzll(type) & 15], 1, __ATOMIC_RELAXED);
	return 0;
}

static int stop(void *handle)
{
	check(handle);
	__atomic_add_fetch(&stops, 1, __ATOMIC_RELAXED);
	return 0;
}

static int record_state(void *handle, int state, void *args)
{
	(void)args;
	check(handle);
	if (state == PROF_SEND_WAIT || state == PROF_RECV_WAIT)
		__atomic_add_fetch(&waits, 1, __ATOMIC_RELAXED);
	return 0;
}

static int finalize(void *context)
{
	(void)context;
	char path[512];
	snprintf(path, sizeof path, "%s.%d", getenv("PROFILER_COUNTS"), (int)getpid());
	FILE *f = fopen(path, "w");
	fprintf(f, "group %lu coll %lu op %lu step %lu stops %lu waits %lu wrong %lu\n", counts[0], counts[1],
		counts[3], counts[4], stops, waits, wrong);
	fclose(f);
	return 0;
}

#define WANTED (PROF_GROUP | PROF_COLL | PROF_PROXY_OP | PROF_PROXY_STEP)
#define CALLS .start_event = start, .stop_event = stop, .record_state = record_state, .finalize = finalize

#if VERSION == 4
static int init(
	void **context, int *mask, const char *name, uint64_t comm, int nodes, int ranks, int rank, net_logger log)
{
	(void)name, (void)comm, (void)nodes, (void)ranks, (void)rank, (void)log;
	*context = &context_of_mine;
	*mask = WANTED;
	return 0;
}

const struct profiler_v4 ncclProfiler_v4 = { "users", .init = init, CALLS };
#else
static int init(
	void **context, uint64_t comm, int *mask, const char *name, int nodes, int ranks, int rank, net_logger log)
{
	(void)name, (void)comm, (void)nodes, (void)ranks, (void)rank, (void)log;
	*context = &context_of_mine;
	*mask = WANTED;
	return 0;
}

const struct profiler_v5 ncclProfiler_v6 = { "users", .init = init, CALLS };
#endif
