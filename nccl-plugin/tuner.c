// SPDX-License-Identifier: Apache-2.0
//
// A tuner that does two things. NCCL tells it how many nodes it counted, which is how
// traffic that goes around the emulated links is noticed: a net plugin alone sees
// neither P2P nor SHM. And it takes LL128 out of what crosses nodes on a real GPU:
// LL128 relies on 128 bytes arriving at once, which a copy through host memory does not
// promise there; where there is nothing else, the job becomes INVALID. All else is
// NCCL's own choice, by the topology file (view.go).

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "_cgo_export.h"
#include "glue.h"

// NCCL's numbers of collectives and protocols, the same since 2.19.
static const char *const collectives[] = { "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce" };
enum { COLLECTIVES = sizeof collectives / sizeof *collectives, LL128 = 1 };

// What NCCL has ruled out costs less than nothing.
#define IGNORED (-1.0f)

// A communicator. NCCL asks for its collectives from one thread at a time.
struct tuned {
	size_t nodes;
	uint64_t said[COLLECTIVES]; // bit n: of sizes from 2^n bytes on, below 2^(n+1)
	int left; // bit n: that LL128 was left in, where enum found has the value n
};

// init says besides whether NCCL will show its costs.
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

static void say(struct tuned *t, int coll, size_t bytes)
{
	char text[192];
	uint64_t bit = 1ull << (bytes == 0 ? 0 : 63 - __builtin_clzll(bytes));
	if (coll < 0 || coll >= COLLECTIVES || (t->said[coll] & bit) || net_forked())
		return;
	t->said[coll] |= bit;
	snprintf(text, sizeof text,
		"%s of %zu bytes: the real fabric would use LL128, which is taken out: it is not safe on a GPU while data goes through host memory",
		collectives[coll], bytes);
	net_log(NET_LOG_INFO, text);
}

// What LL128 was in a table of costs.
enum found {
	NOT_BEST,
	BEST,
	ALONE, // there is nothing else
	EMPTY, // there is nothing at all: NCCL fails, or has a choice that it does not show
};

// without_ll128 rules LL128 out in a table of costs, unless there is nothing else.
static enum found without_ll128(float *cost, int algos, int protos)
{
	float best = IGNORED, rest = IGNORED;
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
		cost[a * protos + LL128] = IGNORED;
	return best < rest ? BEST : NOT_BEST;
}

// left tells of LL128 that stays in, once for a communicator.
static void left(struct tuned *t, enum found found, int coll, size_t bytes)
{
	if ((t->left & 1 << found) || net_forked())
		return;
	t->left |= 1 << found;
	netLeftLL128(
		(char *)(coll >= 0 && coll < COLLECTIVES ? collectives[coll] : "a collective"), bytes, found == ALONE);
}

// What is not set stays NCCL's choice. Before 2.22 the costs are not shown.
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
	// The table has one piece, whatever its type says.
	if (t->nodes < 2 || !net_without_ll128() || protos <= LL128)
		return DDLEMU_SUCCESS;
	enum found found = without_ll128((float *)cost, algos, protos);
	if (found == BEST)
		say(t, coll, bytes);
	else if (found != NOT_BEST)
		left(t, found, coll, bytes);
	return DDLEMU_SUCCESS;
}

static int destroy(void *context)
{
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
