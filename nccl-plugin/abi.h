// SPDX-License-Identifier: Apache-2.0
//
// NCCL's net plugin interface, versions 6 to 12: the layouts of the data symbols ncclNetPlugin_vN, with our names. The
// sizes and offsets asserted below are from NCCL 2.13 to 2.30 on 64-bit machines.
#ifndef DDLEMU_ABI_H
#define DDLEMU_ABI_H

#include <stddef.h>
#include <stdint.h>

#define NET_PTR_HOST 1
#define NET_PTR_CUDA 2
#define NET_MAX_SIZE_BYTES (1024ull * 1024 * 1024 * 1024)
#define NET_ID_UNDEF (-1)

typedef void (*net_logger)(int level, unsigned long flags, const char *file, int line, const char *fmt, ...);
enum { NET_LOG_WARN = 2, NET_LOG_INFO = 3 };
#define NET_LOG_INIT_NET (0x1ul | 0x10ul)

struct net_vdevs4 {
	int n, dev[4];
};
struct net_vdevs8 {
	int n, dev[8];
};

struct net_props_v6 {
	const char *name, *pci_path;
	uint64_t guid;
	int ptr_support, speed, port;
	float latency;
	int max_comms, max_recvs;
};

struct net_props_v7 {
	const char *name, *pci_path;
	uint64_t guid;
	int ptr_support, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
};

struct net_props_v8 {
	const char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
};

#define NET_PROPS_V9 \
	const char *name, *pci_path; \
	uint64_t guid; \
	int ptr_support, reg_is_global, force_flush, speed, port; \
	float latency; \
	int max_comms, max_recvs, device_type, device_version

struct net_props_v9 { // also v10
	NET_PROPS_V9;
	struct net_vdevs4 vdevs;
	size_t max_p2p, max_coll;
};

struct net_props_v11 {
	NET_PROPS_V9;
	struct net_vdevs4 vdevs;
	size_t max_p2p, max_coll;
	int max_multi_request;
};

struct net_props_v12 {
	NET_PROPS_V9;
	struct net_vdevs8 vdevs;
	size_t max_p2p, max_coll;
	int max_multi_request;
	int16_t rail, plane;
};

// Entries that a version does not change.
#define NET_CONTROL(props) \
	int (*devices)(int *); \
	int (*get_properties)(int, props *)
#define NET_CLOSE \
	int (*iflush)(void *, int, void **, int *, void **, void **); \
	int (*test)(void *, int *, int *); \
	int (*close_send)(void *), (*close_recv)(void *), (*close_listen)(void *)
#define NET_DEVICE \
	int (*get_device_mr)(void *, void *, void **); \
	int (*irecv_consumed)(void *, int, void *)
#define NET_DMABUF \
	int (*reg_mr_dmabuf)(void *, void *, size_t, int, uint64_t, int, void **); \
	int (*dereg_mr)(void *, void *)

struct net_v6 {
	const char *name;
	int (*init)(net_logger);
	NET_CONTROL(struct net_props_v6);
	int (*listen)(int, void *, void **);
	int (*connect)(int, void *, void **);
	int (*accept)(void *, void **);
	int (*reg_mr)(void *, void *, int, int, void **);
	NET_DMABUF;
	int (*isend)(void *, void *, int, int, void *, void **);
	int (*irecv)(void *, int, void **, int *, int *, void **, void **);
	NET_CLOSE;
};

struct net_v7 {
	const char *name;
	int (*init)(net_logger);
	NET_CONTROL(struct net_props_v7);
	int (*listen)(int, void *, void **);
	int (*connect)(int, void *, void **, void **);
	int (*accept)(void *, void **, void **);
	int (*reg_mr)(void *, void *, int, int, void **);
	NET_DMABUF;
	int (*isend)(void *, void *, int, int, void *, void **);
	int (*irecv)(void *, int, void **, int *, int *, void **, void **);
	NET_CLOSE;
	NET_DEVICE;
};

struct net_v8 {
	const char *name;
	int (*init)(net_logger);
	NET_CONTROL(struct net_props_v8);
	int (*listen)(int, void *, void **);
	int (*connect)(int, void *, void **, void **);
	int (*accept)(void *, void **, void **);
	int (*reg_mr)(void *, void *, size_t, int, void **);
	NET_DMABUF;
	int (*isend)(void *, void *, int, int, void *, void **);
	int (*irecv)(void *, int, void **, int *, int *, void **, void **);
	NET_CLOSE;
	NET_DEVICE;
};

struct net_v9 {
	const char *name;
	int (*init)(net_logger);
	NET_CONTROL(struct net_props_v9);
	int (*listen)(int, void *, void **);
	int (*connect)(int, void *, void **, void **);
	int (*accept)(void *, void **, void **);
	int (*reg_mr)(void *, void *, size_t, int, void **);
	NET_DMABUF;
	int (*isend)(void *, void *, size_t, int, void *, void **);
	int (*irecv)(void *, int, void **, size_t *, int *, void **, void **);
	NET_CLOSE;
	NET_DEVICE;
	int (*make_vdevice)(int *, void *);
};

struct net_v10 {
	const char *name;
	int (*init)(net_logger, void *profiler);
	NET_CONTROL(struct net_props_v9);
	int (*listen)(int, void *, void **);
	int (*connect)(int, void *config, void *, void **, void **);
	int (*accept)(void *, void **, void **);
	int (*reg_mr)(void *, void *, size_t, int, void **);
	NET_DMABUF;
	int (*isend)(void *, void *, size_t, int, void *, void *, void **);
	int (*irecv)(void *, int, void **, size_t *, int *, void **, void **, void **);
	NET_CLOSE;
	NET_DEVICE;
	int (*make_vdevice)(int *, void *);
};

#define NET_V11(props) \
	const char *name; \
	int (*init)(void **, uint64_t, void *config, net_logger, void *profiler); \
	NET_CONTROL(props); \
	int (*listen)(void *, int, void *, void **); \
	int (*connect)(void *, int, void *, void **, void **); \
	int (*accept)(void *, void **, void **); \
	int (*reg_mr)(void *, void *, size_t, int, void **); \
	NET_DMABUF; \
	int (*isend)(void *, void *, size_t, int, void *, void *, void **); \
	int (*irecv)(void *, int, void **, size_t *, int *, void **, void **, void **); \
	NET_CLOSE; \
	NET_DEVICE; \
	int (*make_vdevice)(int *, void *); \
	int (*finalize)(void *); \
	int (*set_net_attr)(void *, void *)

struct net_v11 {
	NET_V11(struct net_props_v11);
};
struct net_v12 {
	NET_V11(struct net_props_v12);
};

#define NET_SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#define NET_AT(type, field, at) _Static_assert(offsetof(struct type, field) == (at), #type "." #field)
NET_SIZE(net_props_v6, 48);
NET_SIZE(net_props_v7, 56);
NET_SIZE(net_props_v8, 64);
NET_SIZE(net_props_v9, 104);
NET_SIZE(net_props_v11, 112);
NET_SIZE(net_props_v12, 128);
NET_SIZE(net_v6, 136);
NET_SIZE(net_v7, 152);
NET_SIZE(net_v8, 152);
NET_SIZE(net_v9, 160);
NET_SIZE(net_v10, 160);
NET_SIZE(net_v11, 176);
NET_SIZE(net_v12, 176);
NET_AT(net_props_v8, reg_is_global, 28);
NET_AT(net_props_v8, speed, 32);
NET_AT(net_props_v8, latency, 40);
NET_AT(net_props_v8, device_type, 52);
NET_AT(net_props_v11, vdevs, 64);
NET_AT(net_props_v11, max_p2p, 88);
NET_AT(net_props_v11, max_multi_request, 104);
NET_AT(net_props_v12, force_flush, 32);
NET_AT(net_props_v12, speed, 36);
NET_AT(net_props_v12, port, 40);
NET_AT(net_props_v12, latency, 44);
NET_AT(net_props_v12, max_comms, 48);
NET_AT(net_props_v12, max_recvs, 52);
NET_AT(net_props_v12, device_type, 56);
NET_AT(net_props_v12, device_version, 60);
NET_AT(net_props_v12, vdevs, 64);
NET_AT(net_props_v12, max_p2p, 104);
NET_AT(net_props_v12, max_coll, 112);
NET_AT(net_props_v12, max_multi_request, 120);
NET_AT(net_props_v12, rail, 124);
NET_AT(net_props_v12, plane, 126);

#endif
