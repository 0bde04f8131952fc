// SPDX-License-Identifier: Apache-2.0
//
// Makes NCCL 2.22 use the plugin's tuner as 2.21 does: a tuner plugin that has only the table v2, which calls the
// plugin's.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

struct tuner_v2 {
	const char *name;
	int (*init)(size_t, size_t, void *, void **);
	int (*get_coll_info)(void *, int, size_t, int, int, int, int *, int *, int *);
	int (*destroy)(void *);
};

static const struct tuner_v2 *plugin(void)
{
	static const struct tuner_v2 none;
	void *lib = dlopen("libgoemu.so", RTLD_LAZY | RTLD_NOLOAD);
	const struct tuner_v2 *t = lib != NULL ? dlsym(lib, "ncclTunerPlugin_v2") : NULL;
	return t != NULL ? t : &none; // NCCL then crashes, and the test fails
}

static int init(size_t ranks, size_t nodes, void *log, void **context)
{
	return plugin()->init(ranks, nodes, log, context);
}

static int get_coll_info(
	void *context, int coll, size_t bytes, int collnet, int nvls, int ops, int *algo, int *proto, int *channels)
{
	return plugin()->get_coll_info(context, coll, bytes, collnet, nvls, ops, algo, proto, channels);
}

static int destroy(void *context) { return plugin()->destroy(context); }

const struct tuner_v2 ncclTunerPlugin_v2 = { "v2", init, get_coll_info, destroy };
