// SPDX-License-Identifier: Apache-2.0
//
// Calls one version of the plugin's profiler as NCCL does: a group with a collective and a send, and an operation of
// each. Arguments: the library, the version.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../../nccl-plugin/profiler_abi.h"

static void quiet(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)format;
}

struct calls {
	PROF_CALLS;
};

static void *begin(const struct calls *p, void *context, struct prof_event e)
{
	void *handle = &handle;
	if (p->start_event(context, &handle, &e) != 0)
		exit(2);
	return handle;
}

static struct prof_event coll(int version)
{
	struct prof_event e = { .type = PROF_COLL, .rank = 1 };
	switch (version) {
	case 1:
		e.coll_v1 = (struct prof_coll_v1){
			.comm = 77, .seq = 12, .func = 3, .count = 1000, .datatype = 7, .algo = 1, .proto = 2
		};
		break;
	case 2:
		e.coll_v2 = (struct prof_coll_v2){ .comm = 77,
			.seq = 12,
			.func = "ReduceScatter",
			.count = 1000,
			.datatype = "ncclFloat32",
			.traffic = 5,
			.algo = "RING",
			.proto = "SIMPLE" };
		break;
	case 3:
		e.coll_v3 = (struct prof_coll_v3){ .comm = 77,
			.seq = 12,
			.func = "ReduceScatter",
			.count = 1000,
			.datatype = "ncclFloat32",
			.algo = "RING",
			.proto = "SIMPLE" };
		break;
	default:
		e.coll_v4 = (struct prof_coll_v4){ .seq = 12,
			.func = "ReduceScatter",
			.count = 1000,
			.datatype = "ncclFloat32",
			.algo = "RING",
			.proto = "SIMPLE" };
	}
	return e;
}

static struct prof_event p2p(int version)
{
	struct prof_event e = { .type = PROF_P2P, .rank = 1 };
	switch (version) {
	case 1:
		e.p2p_v1 = (struct prof_p2p_v1){ .comm = 77, .func = 6, .datatype = 1, .count = 9, .peer = 3 };
		break;
	case 2:
	case 3:
		e.p2p_v2 = (struct prof_p2p_v2){
			.comm = 77, .func = "Send", .datatype = "ncclUint8", .count = 9, .peer = 3
		};
		break;
	default:
		e.p2p_v4 = (struct prof_p2p_v4){ .func = "Send", .datatype = "ncclUint8", .count = 9, .peer = 3 };
	}
	return e;
}

static void *op(const struct calls *p, void *context, void *task, int channel)
{
	return begin(p, context,
		(struct prof_event){ .type = PROF_PROXY_OP,
			.parent = task,
			.rank = 1,
			.proxy_op = { .pid = getpid(),
				.channel = (uint8_t)channel,
				.peer = 3,
				.steps = 4,
				.chunk = 512,
				.sends = 1 } });
}

int main(int argc, char **argv)
{
	int version = argc > 2 ? atoi(argv[2]) : 0, mask = 0;
	void *lib = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	char name[32];
	snprintf(name, sizeof name, "ncclProfiler_v%d", version);
	void *symbol = lib == NULL ? NULL : dlsym(lib, name);
	const struct net_v8 *net = lib == NULL ? NULL : dlsym(lib, "ncclNetPlugin_v8");
	if (symbol == NULL || net == NULL || net->init(quiet) != 0)
		return 1;
	// In all versions the calls follow the name and init.
	const struct calls *p = (const void *)((const char *)symbol + 2 * sizeof(void *));
	void *context = NULL;
	if (version < 4)
		((const struct profiler_v1 *)symbol)->init(&context, &mask);
	else if (version < 5)
		((const struct profiler_v4 *)symbol)->init(&context, &mask, NULL, 77, 2, 4, 1, quiet);
	else
		((const struct profiler_v5 *)symbol)->init(&context, 77, &mask, NULL, 2, 4, 1, quiet);
	printf("mask %d, NCCL_PROFILER_PLUGIN %s\n", mask, getenv("NCCL_PROFILER_PLUGIN"));
	void *group = begin(p, context, (struct prof_event){ .type = PROF_GROUP });
	void *other = begin(p, context, (struct prof_event){ .type = 1 << 5 });
	struct prof_event c = coll(version), s = p2p(version);
	if (version < 5) {
		c.parent = s.parent = group;
	} else {
		c.coll_v4.group = s.p2p_v4.group = group;
	}
	void *task = begin(p, context, c), *sends = begin(p, context, s);
	void *first = op(p, context, task, 2), *second = op(p, context, sends, 5);
	void *step = begin(p, context, (struct prof_event){ .type = PROF_PROXY_STEP, .parent = first });
	void *orphan = begin(p, context, (struct prof_event){ .type = PROF_PROXY_STEP });
	if (other != NULL || orphan != NULL || step == NULL)
		return 3;
	p->record_state(step, PROF_SEND_WAIT, NULL); // no request was posted
	p->stop_event(step);
	p->stop_event(first);
	p->stop_event(task);
	p->stop_event(group);
	(void)second;
	p->finalize(context);
	return 0;
}
