// SPDX-License-Identifier: Apache-2.0
//
// A tuner that tunes nothing: NCCL tells a tuner how many nodes it counted, which
// is how traffic that goes around the emulated links is noticed. A net plugin
// alone sees neither P2P nor SHM.

#include <stddef.h>

#include "_cgo_export.h"
#include "glue.h"

static int init(size_t ranks, size_t nodes, net_logger log, void **context)
{
	static char none;
	(void)log;
	*context = &none;
	if (!net_forked())
		netNodes(ranks, nodes);
	return 0;
}

// What is not set stays NCCL's choice.
static int get_coll_info_v2(void *context, int coll, size_t bytes, int collnet, int nvls, int ops, int *algo, int *proto, int *channels)
{
	(void)context, (void)coll, (void)bytes, (void)collnet, (void)nvls, (void)ops, (void)algo, (void)proto, (void)channels;
	return 0;
}

static int get_coll_info_v3(void *context, int coll, size_t bytes, int ops, float **cost, int algos, int protos, int *channels)
{
	(void)context, (void)coll, (void)bytes, (void)ops, (void)cost, (void)algos, (void)protos, (void)channels;
	return 0;
}

static int destroy(void *context)
{
	(void)context;
	return 0;
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

const struct tuner_v2 ncclTunerPlugin_v2 = { "goemu", init, get_coll_info_v2, destroy };
const struct tuner_v3 ncclTunerPlugin_v3 = { "goemu", init, get_coll_info_v3, destroy };
