// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "net.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

#define LEVEL_WARN 2 // NCCL_LOG_WARN

static __thread char log_text[8192];

void net_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)flags, (void)file, (void)line;
	if (level > LEVEL_WARN)
		return;
	size_t n = strlen(log_text);
	va_list args;
	va_start(args, fmt);
	vsnprintf(log_text + n, sizeof log_text - n, fmt, args);
	va_end(args);
	n = strlen(log_text);
	snprintf(log_text + n, sizeof log_text - n, "; ");
}

const char *net_log(void) { return log_text; }

void net_load(struct net *n, const char *path, int version)
{
	*n = (struct net){ .version = version, .lib = dlopen(path, RTLD_NOW | RTLD_LOCAL) };
	if (n->lib == NULL)
		fail("dlopen: %s", dlerror());
	char name[32];
	snprintf(name, sizeof name, "ncclNetPlugin_v%d", version);
	n->table = dlsym(n->lib, name);
	if (n->table == NULL)
		fail("dlsym: %s", dlerror());
}

size_t net_table_size(const struct net *n)
{
	Dl_info info;
	ElfW(Sym) *symbol = NULL;
	if (dladdr1(n->table, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 || symbol == NULL)
		fail("no symbol at the vtable's address");
	return symbol->st_size;
}

#define CALL(slot, ...) (((int (*)(__VA_ARGS__))n->table[slot]))

static int no_profiler(void **handle, int type, void *parent, int64_t id, void *data)
{
	(void)handle, (void)type, (void)parent, (void)id, (void)data;
	return 0;
}

int net_init(struct net *n, uint64_t comm_id)
{
	int config = -1; // NCCL_NET_TRAFFIC_CLASS_UNDEF
	n->ctx = NULL;
	if (n->version >= 11)
		return CALL(INIT, void **, uint64_t, void *, void *, void *)(
			&n->ctx, comm_id, &config, net_logger, no_profiler);
	if (n->version == 10)
		return CALL(INIT, void *, void *)(net_logger, no_profiler);
	return CALL(INIT, void *)(net_logger);
}

int net_finalize(struct net *n) { return n->version >= 11 ? CALL(FINALIZE, void *)(n->ctx) : SUCCESS; }

int net_devices(struct net *n, int *count) { return CALL(DEVICES, int *)(count); }

int net_properties(struct net *n, int dev, void *props) { return CALL(GET_PROPERTIES, int, void *)(dev, props); }

int net_listen(struct net *n, int dev, void *handle, void **comm)
{
	if (n->version >= 11)
		return CALL(LISTEN, void *, int, void *, void **)(n->ctx, dev, handle, comm);
	return CALL(LISTEN, int, void *, void **)(dev, handle, comm);
}

int net_connect(struct net *n, int dev, void *handle, void **comm)
{
	void *device = NULL; // no offload wanted
	int config = -1;
	if (n->version >= 11)
		return CALL(CONNECT, void *, int, void *, void **, void **)(n->ctx, dev, handle, comm, &device);
	if (n->version == 10)
		return CALL(CONNECT, int, void *, void *, void **, void **)(dev, &config, handle, comm, &device);
	if (n->version >= 7)
		return CALL(CONNECT, int, void *, void **, void **)(dev, handle, comm, &device);
	return CALL(CONNECT, int, void *, void **)(dev, handle, comm);
}

int net_accept(struct net *n, void *listen, void **comm)
{
	void *device = NULL;
	if (n->version >= 7)
		return CALL(ACCEPT, void *, void **, void **)(listen, comm, &device);
	return CALL(ACCEPT, void *, void **)(listen, comm);
}

int net_reg_mr(struct net *n, void *comm, void *data, size_t size, int type, void **mhandle)
{
	if (n->version >= 8)
		return CALL(REG_MR, void *, void *, size_t, int, void **)(comm, data, size, type, mhandle);
	return CALL(REG_MR, void *, void *, int, int, void **)(comm, data, (int)size, type, mhandle);
}

int net_dereg_mr(struct net *n, void *comm, void *mhandle) { return CALL(DEREG_MR, void *, void *)(comm, mhandle); }

#define TAG 7

static char profiled; // what a profiler's handle points to, which is nobody's but its own

int net_isend(struct net *n, void *comm, void *data, size_t size, void *mhandle, void **request)
{
	if (n->version >= 10)
		return CALL(ISEND, void *, void *, size_t, int, void *, void *, void **)(
			comm, data, size, TAG, mhandle, n->bare ? NULL : &profiled, request);
	if (n->version == 9)
		return CALL(ISEND, void *, void *, size_t, int, void *, void **)(
			comm, data, size, TAG, mhandle, request);
	return CALL(ISEND, void *, void *, int, int, void *, void **)(comm, data, (int)size, TAG, mhandle, request);
}

#define MAX_GROUP 8

int net_irecv_n(struct net *n, void *comm, int count, void *data, size_t size, void *mhandle, void **request)
{
	void *datas[MAX_GROUP], *mhandles[MAX_GROUP], *phandles[MAX_GROUP];
	int tags[MAX_GROUP], ints[MAX_GROUP];
	size_t sizes[MAX_GROUP];
	for (int i = 0; i < count; i++) {
		datas[i] = data;
		mhandles[i] = mhandle;
		phandles[i] = &profiled;
		tags[i] = TAG;
		ints[i] = (int)size;
		sizes[i] = size;
	}
	void **p = n->bare ? NULL : phandles;
	if (n->version >= 10)
		return CALL(IRECV, void *, int, void **, size_t *, int *, void **, void **, void **)(
			comm, count, datas, sizes, tags, mhandles, p, request);
	if (n->version == 9)
		return CALL(IRECV, void *, int, void **, size_t *, int *, void **, void **)(
			comm, count, datas, sizes, tags, mhandles, request);
	return CALL(IRECV, void *, int, void **, int *, int *, void **, void **)(
		comm, count, datas, ints, tags, mhandles, request);
}

int net_irecv(struct net *n, void *comm, void *data, size_t size, void *mhandle, void **request)
{
	return net_irecv_n(n, comm, 1, data, size, mhandle, request);
}

int net_iflush(struct net *n, void *comm, void *data, int size, void *mhandle, void **request)
{
	return CALL(IFLUSH, void *, int, void **, int *, void **, void **)(comm, 1, &data, &size, &mhandle, request);
}

int net_test(struct net *n, void *request, int *done, int *sizes)
{
	return CALL(TEST, void *, int *, int *)(request, done, sizes);
}

int net_close_send(struct net *n, void *comm) { return CALL(CLOSE_SEND, void *)(comm); }
int net_close_recv(struct net *n, void *comm) { return CALL(CLOSE_RECV, void *)(comm); }
int net_close_listen(struct net *n, void *comm) { return CALL(CLOSE_LISTEN, void *)(comm); }
