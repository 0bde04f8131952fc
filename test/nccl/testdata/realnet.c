// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into a rank, this makes the plugin's NICs tell NCCL what another net would: its latency, speed, port,
// regIsGlobal and maxRecvs, from the variable REALNET, in this order. The layouts are from NCCL's net API.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int (*get_properties)(int dev, void *props);

struct offsets {
	size_t reg_is_global, speed, port, latency, max_recvs;
};

// Of ncclNetProperties_v8_t and of v9 to v12.
static const struct offsets v8 = { 28, 32, 36, 40, 48 }, v9 = { 28, 36, 40, 44, 52 };

static get_properties real_v8, real_v11;
static float latency;
static int speed, port, reg_is_global, max_recvs;

static int tell(get_properties ask, const struct offsets *o, int dev, char *props)
{
	int result = ask(dev, props);
	if (result == 0) {
		memcpy(props + o->reg_is_global, &reg_is_global, sizeof reg_is_global);
		memcpy(props + o->speed, &speed, sizeof speed);
		memcpy(props + o->port, &port, sizeof port);
		memcpy(props + o->latency, &latency, sizeof latency);
		memcpy(props + o->max_recvs, &max_recvs, sizeof max_recvs);
	}
	return result;
}

static int tell_v8(int dev, void *props) { return tell(real_v8, &v8, dev, props); }
static int tell_v11(int dev, void *props) { return tell(real_v11, &v9, dev, props); }

// replace puts f in the place of getProperties, the fourth entry of a table, and returns what was there.
static get_properties replace(void *library, const char *table, get_properties f)
{
	void **entries = dlsym(library, table);
	if (entries == NULL)
		abort();
	long page = sysconf(_SC_PAGESIZE);
	void *start = (void *)((uintptr_t)&entries[3] & ~(uintptr_t)(page - 1));
	if (mprotect(start, 2 * (size_t)page, PROT_READ | PROT_WRITE) != 0)
		abort();
	get_properties before = (get_properties)entries[3];
	entries[3] = (void *)f;
	return before;
}

__attribute__((constructor)) static void begin(void)
{
	const char *values = getenv("REALNET");
	if (values == NULL || strcmp(program_invocation_short_name, "ddlemu-rank") != 0)
		return;
	if (sscanf(values, "%f,%d,%d,%d,%d", &latency, &speed, &port, &reg_is_global, &max_recvs) != 5)
		abort();
	void *library = dlopen("libnccl-net-goemu.so", RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		abort();
	real_v8 = replace(library, "ncclNetPlugin_v8", tell_v8);
	real_v11 = replace(library, "ncclNetPlugin_v11", tell_v11);
}
