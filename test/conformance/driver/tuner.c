// SPDX-License-Identifier: Apache-2.0
//
// Cases of the tuner. NCCL tells it how many ranks and nodes there are. The verdict names them if they are not the
// emulated ones.

#include <dlfcn.h>
#include <string.h>

#include "cases.h"

// Positions in ncclTunerPlugin_v2 and _v3.
enum { TUNER_NAME, TUNER_INIT, TUNER_INFO, TUNER_DESTROY };

typedef int (*tuner_init)(size_t ranks, size_t nodes, void *log, void **context);
typedef int (*tuner_info_v2)(
	void *context, int coll, size_t bytes, int collnet, int nvls, int ops, int *algo, int *proto, int *channels);
typedef int (*tuner_info_v3)(
	void *context, int coll, size_t bytes, int ops, float **cost, int algos, int protos, int *channels);
typedef int (*tuner_destroy)(void *context);

static void tune(struct end *e, int version, size_t ranks, size_t nodes)
{
	void **table = dlsym(e->net.lib, version == 2 ? "ncclTunerPlugin_v2" : "ncclTunerPlugin_v3"), *context = NULL;
	if (table == NULL)
		fail("dlsym: %s", dlerror());
	if (table[TUNER_NAME] == NULL || strcmp(table[TUNER_NAME], "goemu") != 0)
		fail("tuner v%d and the net have different names", version);
	CHECK(((tuner_init)table[TUNER_INIT])(ranks, nodes, net_logger, &context));
	int algo = -1, proto = -1, channels = -1;
	float cost[7 * 3], before[7 * 3];
	for (int i = 0; i < 7 * 3; i++)
		before[i] = cost[i] = (float)i - 1; // -1: not possible
	if (version == 2)
		CHECK(((tuner_info_v2)table[TUNER_INFO])(context, 4, 1 << 20, 0, 0, 1, &algo, &proto, &channels));
	else
		CHECK(((tuner_info_v3)table[TUNER_INFO])(context, 4, 1 << 20, 1, (float **)cost, 7, 3, &channels));
	if (algo != -1 || proto != -1 || channels != -1 || memcmp(cost, before, sizeof cost) != 0)
		fail("tuner v%d changed NCCL's choice", version);
	CHECK(((tuner_destroy)table[TUNER_DESTROY])(context));
}

static void tune_all(struct end *e, size_t ranks, size_t nodes)
{
	begin(e);
	meet(e, 0); // NCCL inits tuners when all ranks are there
	for (int version = 2; version <= 3; version++)
		tune(e, version, ranks, nodes);
	try_out(e, 0);
}

void case_tuner(struct end *e) { tune_all(e, 2, 2); }
void case_tuner_nodes(struct end *e) { tune_all(e, 2, 1); }
void case_tuner_subset(struct end *e) { tune_all(e, 1, 1); }
void case_tuner_ranks(struct end *e) { tune_all(e, 4, 2); }
