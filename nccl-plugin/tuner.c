// SPDX-License-Identifier: Apache-2.0
//
// A tuner that does two things.
//
// NCCL tells it which communicators there are, and how many nodes NCCL counted. That is how traffic around the emulated
// links is noticed: a net plugin sees neither P2P nor SHM.
//
// On a real GPU it removes LL128 from the choices between nodes. LL128 needs 128 bytes to arrive at once, which a copy
// through host memory does not promise. If NCCL has no other choice, the job becomes INVALID.
//
// Everything else is NCCL's choice, by the topology file (view.go).

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "_cgo_export.h"
#include "glue.h"

// NCCL's numbers for collectives and protocols, the same since 2.19.
static const char *const collectives[] = { "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce" };
enum { COLLECTIVES = sizeof collectives / sizeof *collectives, LL128 = 1 };

// The cost of what NCCL must not choose.
#define EXCLUDED (-1.0f)

// A communicator. NCCL asks for its collectives from one thread at a time.
struct tuned {
	size_t nodes;
	uint64_t logged[COLLECTIVES]; // bit n: sizes of 2^n bytes and more, below 2^(n+1), were logged
	int reported; // bit n: that LL128 was kept for reason n of enum ll128 was reported
};

// `costs` says whether NCCL will show its costs to this version of the tuner.
static int init(size_t ranks, size_t nodes, int costs, void **context)
{
	struct tuned *t = calloc(1, sizeof *t);
	if (t == NULL)
		return DDLEMU_SYSTEM_ERROR;
	t->nodes = nodes;
	*context = t;
	if (!net_forked())
		netNodes(ranks, nodes, costs);
	return DDLEMU_SUCCESS;
}

static int init_v2(size_t ranks, size_t nodes, net_logger log, void **context)
{
	(void)log;
	return init(ranks, nodes, 0, context);
}

static int init_v3(size_t ranks, size_t nodes, net_logger log, void **context)
{
	(void)log;
	return init(ranks, nodes, 1, context);
}

static void log_removed(struct tuned *t, int coll, size_t bytes)
{
	char text[192];
	uint64_t bit = 1ull << (bytes == 0 ? 0 : 63 - __builtin_clzll(bytes));
	if (coll < 0 || coll >= COLLECTIVES || (t->logged[coll] & bit) || net_forked())
		return;
	t->logged[coll] |= bit;
	snprintf(text, sizeof text,
		"%s of %zu bytes: the real fabric would use LL128, which is taken out: it is not safe on a GPU while data goes through host memory",
		collectives[coll], bytes);
	net_log(NET_LOG_INFO, text);
}

// What LL128 was in a table of costs.
enum ll128 {
	NOT_BEST, // removed, or not there
	BEST, // removed
	ALONE, // kept: NCCL has no other choice
	EMPTY, // the table is empty: NCCL fails, or has a choice that it does not show
};

// remove_ll128 excludes LL128 in a table of costs, unless it is the only choice.
static enum ll128 remove_ll128(float *cost, int algos, int protos)
{
	float best = EXCLUDED, rest = EXCLUDED;
	for (int i = 0; i < algos * protos; i++) {
		float *least = i % protos == LL128 ? &best : &rest;
		if (cost[i] >= 0 && (*least < 0 || cost[i] < *least))
			*least = cost[i];
	}
	if (rest < 0)
		return best < 0 ? EMPTY : ALONE;
	if (best < 0)
		return NOT_BEST;
	for (int a = 0; a < algos; a++)
		cost[a * protos + LL128] = EXCLUDED;
	return best < rest ? BEST : NOT_BEST;
}

// report_kept reports that LL128 stays a choice, once per communicator and reason.
static void report_kept(struct tuned *t, enum ll128 found, int coll, size_t bytes)
{
	if ((t->reported & 1 << found) || net_forked())
		return;
	t->reported |= 1 << found;
	netKeptLL128(
		(char *)(coll >= 0 && coll < COLLECTIVES ? collectives[coll] : "a collective"), bytes, found == ALONE);
}

// Sets nothing, so NCCL chooses. Before 2.22 NCCL does not show its costs.
static int get_coll_info_v2(
	void *context, int coll, size_t bytes, int collnet, int nvls, int ops, int *algo, int *proto, int *channels)
{
	(void)context, (void)coll, (void)bytes, (void)collnet, (void)nvls, (void)ops, (void)algo, (void)proto,
		(void)channels;
	return DDLEMU_SUCCESS;
}

static int get_coll_info_v3(
	void *context, int coll, size_t bytes, int ops, float **cost, int algos, int protos, int *channels)
{
	(void)ops, (void)channels;
	struct tuned *t = context;
	if (t->nodes < 2 || !net_without_ll128() || protos <= LL128)
		return DDLEMU_SUCCESS;
	enum ll128 found = remove_ll128((float *)cost, algos, protos); // NCCL passes one array of floats
	if (found == BEST)
		log_removed(t, coll, bytes);
	else if (found != NOT_BEST)
		report_kept(t, found, coll, bytes);
	return DDLEMU_SUCCESS;
}

static int destroy(void *context)
{
	if (!net_forked() && !net_exiting())
		netCommunicatorEnded();
	free(context);
	return DDLEMU_SUCCESS;
}

struct tuner_v2 {
	const char *name;
	int (*init)(size_t, size_t, net_logger, void **);
	int (*get_coll_info)(void *, int, size_t, int, int, int, int *, int *, int *);
	int (*destroy)(void *);
};

struct tuner_v3 {
	const char *name;
	int (*init)(size_t, size_t, net_logger, void **);
	int (*get_coll_info)(void *, int, size_t, int, float **, int, int, int *);
	int (*destroy)(void *);
};

const struct tuner_v2 ncclTunerPlugin_v2 = { "goemu", init_v2, get_coll_info_v2, destroy };
const struct tuner_v3 ncclTunerPlugin_v3 = { "goemu", init_v3, get_coll_info_v3, destroy };
