// SPDX-License-Identifier: Apache-2.0
//
// NCCL's vtables, one per version of the net API. The calls of every message (isend, irecv, test) go through the
// connection's table of functions to its datapath, in C. The others go to Go (exports.go).

#include <stdlib.h>
#include <string.h>

#include "_cgo_export.h"
#include "glue.h"
#include "internal/transport/transport.h"

#define NAME "goemu"
#define HANDLE_MAX_COMMS 65536

// report writes to the log why a call failed, and ends the process if DDLEMU_ABORT_ON_ERROR asks for that.
static int report(int result)
{
	if (result != DDLEMU_SUCCESS && !net_exiting())
		netReportError();
	return result;
}

// report_call is report for a call on a connection. NCCL repeats a call that fails until the program aborts the
// communicator, so the same text is written once per connection.
static int report_call(struct ddlemu_comm *c, int result)
{
	return result == DDLEMU_SUCCESS || ddlemu_error_is_new(c) ? report(result) : result;
}

// An address of a process has 47 bits, so no message is longer. Before version 9 of the net API a size is an int: -1 is
// too long, too.
#define SIZE_BITS 47

#define NOT_IN_CHILD \
	do { \
		if (net_forked() && net_refused()) \
			return DDLEMU_SYSTEM_ERROR; \
	} while (0)

static int do_isend(void *comm, void *data, size_t size, void **request)
{
	struct ddlemu_comm *c = comm;
	NOT_IN_CHILD;
	if (size >> SIZE_BITS) {
		*request = NULL;
		return report_call(c, ddlemu_refuse_size(size));
	}
	return report_call(c, c->ops->isend(c, data, size, (struct ddlemu_request **)request));
}

static int do_irecv(void *comm, int n, void *data, size_t size, void **request)
{
	struct ddlemu_comm *c = comm;
	NOT_IN_CHILD;
	if (n != 1) {
		*request = NULL;
		return DDLEMU_INVALID_ARGUMENT; // maxRecvs is 1
	}
	if (size >> SIZE_BITS) {
		*request = NULL;
		return report_call(c, ddlemu_refuse_size(size));
	}
	return report_call(c, c->ops->irecv(c, data, size, (struct ddlemu_request **)request));
}

static int do_test(void *request, int *done, int *sizes)
{
	struct ddlemu_request *r = request;
	size_t size = 0;
	NOT_IN_CHILD;
	int result = r->comm->ops->test(r, done, &size);
	if (result == DDLEMU_SUCCESS && *done && sizes != NULL)
		*sizes = (int)size;
	return report_call(r->comm, result);
}

static int do_iflush(void *comm, int n, void **data, int *sizes, void **mhandles, void **request)
{
	(void)comm, (void)n, (void)data, (void)sizes, (void)mhandles;
	*request = NULL; // host memory needs no flush, and the memory of software GPUs is host memory
	return DDLEMU_SUCCESS;
}

// --- control

static int do_devices(int *n)
{
	NOT_IN_CHILD;
	return netDevices(n);
}

static int do_listen(int dev, void *handle, void **comm)
{
	uint64_t id = 0;
	NOT_IN_CHILD;
	int result = netListen(dev, handle, &id);
	*comm = (void *)(uintptr_t)id;
	return result;
}

static int do_connect(int dev, void *handle, void **comm)
{
	NOT_IN_CHILD;
	return netConnect(dev, handle, comm);
}

static int do_accept(void *listen, void **comm)
{
	NOT_IN_CHILD;
	return netAccept((uint64_t)(uintptr_t)listen, comm);
}

// Closing never fails: after an error NCCL would skip the rest of its clean-up.
static int do_close(void *comm)
{
	if (comm != NULL && !net_forked())
		netClose(((struct ddlemu_comm *)comm)->id);
	return DDLEMU_SUCCESS;
}

static int do_close_listen(void *listen)
{
	if (listen != NULL && !net_forked())
		netCloseListen((uint64_t)(uintptr_t)listen);
	return DDLEMU_SUCCESS;
}

// A registration of GPU memory with a comm that wants to know when it ends. All others are the comm itself.
struct registration {
	void *data;
	size_t size;
};

static int do_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
	*mhandle = NULL;
	if (type != NET_PTR_HOST && !(type == NET_PTR_CUDA && net_direct()))
		return DDLEMU_INVALID_ARGUMENT;
	*mhandle = comm; // NULL means failure to NCCL
	if (type == NET_PTR_HOST || comm == NULL || ((struct ddlemu_comm *)comm)->ops->withdraw == NULL)
		return DDLEMU_SUCCESS;
	struct registration *r = malloc(sizeof *r);
	if (r == NULL)
		return DDLEMU_SYSTEM_ERROR;
	*r = (struct registration){ data, size };
	*mhandle = r;
	return DDLEMU_SUCCESS;
}

static int do_dereg_mr(void *comm, void *mhandle)
{
	// Only NCCL's calls copy, so no copy of this process can be in progress.
	if (mhandle == comm || mhandle == NULL || net_forked())
		return DDLEMU_SUCCESS;
	struct registration *r = mhandle;
	((struct ddlemu_comm *)comm)->ops->withdraw(comm, r->data, r->size);
	free(r);
	return DDLEMU_SUCCESS;
}

// fill writes every field that all versions share; NCCL hands in memory that it
// has not initialised.
#define FILL(p, nic) \
	do { \
		memset(p, 0, sizeof *(p)); \
		(p)->name = (nic).name; \
		(p)->guid = (nic).guid; \
		(p)->ptr_support = NET_PTR_HOST | (net_direct() ? NET_PTR_CUDA : 0); \
		(p)->speed = (nic).speed; \
		(p)->port = (nic).port; \
		(p)->latency = (nic).latency; \
		(p)->max_comms = HANDLE_MAX_COMMS; \
		(p)->max_recvs = 1; \
	} while (0)

#define FILL_V9(p, nic, d) \
	do { \
		FILL(p, nic); \
		(p)->vdevs.n = 1; \
		(p)->vdevs.dev[0] = d; \
		(p)->max_p2p = NET_MAX_SIZE_BYTES; \
		(p)->max_coll = NET_MAX_SIZE_BYTES; \
	} while (0)

#define PROPS(version, fill) \
	static int props_v##version(int dev, struct net_props_v##version *p) \
	{ \
		NOT_IN_CHILD; \
		struct net_nic nic; \
		int result = netNIC(dev, &nic); \
		if (result == DDLEMU_SUCCESS) \
			fill; \
		return result; \
	}

PROPS(6, FILL(p, nic))
PROPS(7, FILL(p, nic))
PROPS(8, FILL(p, nic))
PROPS(9, FILL_V9(p, nic, dev))
PROPS(11, {
	FILL_V9(p, nic, dev);
	p->max_multi_request = 1;
})
PROPS(12, {
	FILL_V9(p, nic, dev);
	p->max_multi_request = 1;
	p->rail = NET_ID_UNDEF;
	p->plane = NET_ID_UNDEF;
})

// --- functions whose signatures differ between the versions

static int do_init(net_logger log, uint64_t comm_id)
{
	NOT_IN_CHILD;
	net_set_logger(log);
	return netInit(comm_id);
}

static int init_v6(net_logger log) { return do_init(log, 0); }
static int init_v10(net_logger log, void *profiler)
{
	(void)profiler;
	return init_v6(log);
}

static int init_v11(void **ctx, uint64_t comm_id, void *config, net_logger log, void *profiler)
{
	(void)config, (void)profiler;
	static char context; // all communicators share the process's fabric
	*ctx = &context;
	return do_init(log, comm_id);
}

static int finalize_v11(void *ctx)
{
	(void)ctx; // the process leaves the fabric when it ends: NCCL may make another communicator
	return DDLEMU_SUCCESS;
}

static int listen_v11(void *ctx, int dev, void *handle, void **comm)
{
	(void)ctx;
	return do_listen(dev, handle, comm);
}

static int connect_v7(int dev, void *handle, void **comm, void **device)
{
	(void)device;
	return do_connect(dev, handle, comm);
}

static int connect_v10(int dev, void *config, void *handle, void **comm, void **device)
{
	(void)config;
	return connect_v7(dev, handle, comm, device);
}

static int connect_v11(void *ctx, int dev, void *handle, void **comm, void **device)
{
	(void)ctx;
	return connect_v7(dev, handle, comm, device);
}

static int accept_v7(void *listen, void **comm, void **device)
{
	(void)device;
	return do_accept(listen, comm);
}

static int reg_mr_v6(void *comm, void *data, int size, int type, void **mhandle)
{
	return do_reg_mr(comm, data, (size_t)size, type, mhandle);
}

static int isend_v6(void *comm, void *data, int size, int tag, void *mhandle, void **request)
{
	(void)tag, (void)mhandle;
	return do_isend(comm, data, (size_t)size, request);
}

static int isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle, void **request)
{
	(void)tag, (void)mhandle;
	return do_isend(comm, data, size, request);
}

static int isend_v10(void *comm, void *data, size_t size, int tag, void *mhandle, void *phandle, void **request)
{
	(void)tag, (void)mhandle, (void)phandle;
	return do_isend(comm, data, size, request);
}

static int irecv_v6(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles, void **request)
{
	(void)tags, (void)mhandles;
	*request = (void *)DDLEMU_POLLED; // these versions do not say whether the bytes are polled
	return do_irecv(comm, n, data[0], (size_t)sizes[0], request);
}

static int irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles, void **request)
{
	(void)tags, (void)mhandles;
	return do_irecv(comm, n, data[0], sizes[0], request);
}

static int irecv_v10(
	void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles, void **phandles, void **request)
{
	(void)tags, (void)mhandles, (void)phandles;
	return do_irecv(comm, n, data[0], sizes[0], request);
}

#define COMMON \
	.name = NAME, .devices = do_devices, .dereg_mr = do_dereg_mr, .iflush = do_iflush, .test = do_test, \
	.close_send = do_close, .close_recv = do_close, .close_listen = do_close_listen

// A version's table: the functions whose signatures differ between the versions, and further fields.
#define VTABLE(version, init_fn, listen_fn, connect_fn, accept_fn, reg_mr_fn, isend_fn, irecv_fn, ...) \
	const struct net_v##version ncclNetPlugin_v##version = { COMMON, .init = init_fn, .listen = listen_fn, \
		.connect = connect_fn, .accept = accept_fn, .reg_mr = reg_mr_fn, .isend = isend_fn, .irecv = irecv_fn, \
		__VA_ARGS__ }

VTABLE(6, init_v6, do_listen, do_connect, do_accept, reg_mr_v6, isend_v6, irecv_v6, .get_properties = props_v6);
VTABLE(7, init_v6, do_listen, connect_v7, accept_v7, reg_mr_v6, isend_v6, irecv_v6, .get_properties = props_v7);
VTABLE(8, init_v6, do_listen, connect_v7, accept_v7, do_reg_mr, isend_v6, irecv_v6, .get_properties = props_v8);
VTABLE(9, init_v6, do_listen, connect_v7, accept_v7, do_reg_mr, isend_v9, irecv_v9, .get_properties = props_v9);
VTABLE(10, init_v10, do_listen, connect_v10, accept_v7, do_reg_mr, isend_v10, irecv_v10, .get_properties = props_v9);
VTABLE(11, init_v11, listen_v11, connect_v11, accept_v7, do_reg_mr, isend_v10, irecv_v10, .get_properties = props_v11,
	.finalize = finalize_v11);
VTABLE(12, init_v11, listen_v11, connect_v11, accept_v7, do_reg_mr, isend_v10, irecv_v10, .get_properties = props_v12,
	.finalize = finalize_v11);
