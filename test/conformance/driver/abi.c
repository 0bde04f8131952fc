// SPDX-License-Identifier: Apache-2.0

#include "abi.h"

static const struct {
	int slots;
	size_t properties;
} versions[] = {
	[6] = { 17, 48 },
	[7] = { 19, 56 },
	[8] = { 19, 64 },
	[9] = { 20, 104 },
	[10] = { 20, 104 },
	[11] = { 22, 112 },
	[12] = { 22, 128 },
};

int slots_of(int version) { return versions[version].slots; }

size_t properties_size(int version) { return versions[version].properties; }

int may_be_null(enum slot s)
{
	return s == REG_MR_DMABUF || s == GET_DEVICE_MR || s == IRECV_CONSUMED || s == MAKE_VDEVICE ||
		s == SET_NET_ATTR;
}

#define HEAD { "name", TEXT, 0 }, { "pciPath", TEXT, 8 }, { "guid", U64, 16 }, { "ptrSupport", INT, 24 }

static const struct field v6[] = {
	HEAD,
	{ "speed", INT, 28 },
	{ "port", INT, 32 },
	{ "latency", FLOAT, 36 },
	{ "maxComms", INT, 40 },
	{ "maxRecvs", INT, 44 },
	{ 0 },
};

static const struct field v7[] = {
	HEAD,
	{ "speed", INT, 28 },
	{ "port", INT, 32 },
	{ "latency", FLOAT, 36 },
	{ "maxComms", INT, 40 },
	{ "maxRecvs", INT, 44 },
	{ "netDeviceType", INT, 48 },
	{ "netDeviceVersion", INT, 52 },
	{ 0 },
};

static const struct field v8[] = {
	HEAD,
	{ "regIsGlobal", INT, 28 },
	{ "speed", INT, 32 },
	{ "port", INT, 36 },
	{ "latency", FLOAT, 40 },
	{ "maxComms", INT, 44 },
	{ "maxRecvs", INT, 48 },
	{ "netDeviceType", INT, 52 },
	{ "netDeviceVersion", INT, 56 },
	{ 0 },
};

#define HEAD_V9 \
	HEAD, { "regIsGlobal", INT, 28 }, { "forceFlush", INT, 32 }, { "speed", INT, 36 }, { "port", INT, 40 }, \
		{ "latency", FLOAT, 44 }, { "maxComms", INT, 48 }, { "maxRecvs", INT, 52 }, \
		{ "netDeviceType", INT, 56 }, { "netDeviceVersion", INT, 60 }, { "ndevs", INT, 64 }, \
		{ "devs[0]", INT, 68 }

static const struct field v9[] = { HEAD_V9, { "maxP2pBytes", SIZE, 88 }, { "maxCollBytes", SIZE, 96 }, { 0 } };

static const struct field v11[] = {
	HEAD_V9,
	{ "maxP2pBytes", SIZE, 88 },
	{ "maxCollBytes", SIZE, 96 },
	{ "maxMultiRequestSize", INT, 104 },
	{ 0 },
};

static const struct field v12[] = {
	HEAD_V9,
	{ "maxP2pBytes", SIZE, 104 },
	{ "maxCollBytes", SIZE, 112 },
	{ "maxMultiRequestSize", INT, 120 },
	{ "railId", SHORT, 124 },
	{ "planeId", SHORT, 126 },
	{ 0 },
};

const struct field *fields_of(int version)
{
	static const struct field *const all[] = {
		[6] = v6, [7] = v7, [8] = v8, [9] = v9, [10] = v9, [11] = v11, [12] = v12
	};
	return all[version];
}
