// SPDX-License-Identifier: Apache-2.0
//
// A loaded plugin, called as the NCCL of each version calls it.
#ifndef CONFORMANCE_NET_H
#define CONFORMANCE_NET_H

#include "abi.h"

struct net {
	int version;
	void *lib;
	void **table; // the data symbol
	void *ctx; // from init, from v11 on
	int bare; // pass no profiler handles, as NCCL's bootstrap does
};

// Loads the library and finds the vtable, or fails the case.
void net_load(struct net *, const char *path, int version);
// Reads the size of the vtable from the library's symbol table.
size_t net_table_size(const struct net *);

int net_init(struct net *, uint64_t comm_id);
int net_finalize(struct net *); // nothing before v11, as in NCCL
int net_devices(struct net *, int *n);
int net_properties(struct net *, int dev, void *props);
int net_listen(struct net *, int dev, void *handle, void **comm);
int net_connect(struct net *, int dev, void *handle, void **comm);
int net_accept(struct net *, void *listen, void **comm);
int net_reg_mr(struct net *, void *comm, void *data, size_t size, int type, void **mhandle);
int net_dereg_mr(struct net *, void *comm, void *mhandle);
int net_isend(struct net *, void *comm, void *data, size_t size, void *mhandle, void **request);
// Posts n receives of one size each: a grouped receive for n > 1.
int net_irecv_n(struct net *, void *comm, int n, void *data, size_t size, void *mhandle, void **request);
int net_irecv(struct net *, void *comm, void *data, size_t size, void *mhandle, void **request);
int net_iflush(struct net *, void *comm, void *data, int size, void *mhandle, void **request);
int net_test(struct net *, void *request, int *done, int *sizes);
int net_close_send(struct net *, void *comm);
int net_close_recv(struct net *, void *comm);
int net_close_listen(struct net *, void *comm);

// The logger for the plugin: net_log returns the last warning of this thread.
void net_logger(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);
const char *net_log(void);

#endif
