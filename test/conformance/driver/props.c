// SPDX-License-Identifier: Apache-2.0
//
// Cases of data that NCCL reads: the vtable, and the properties of NICs.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

void case_vtable(struct end *e)
{
	begin(e);
	size_t size = net_table_size(&e->net), want = (size_t)slots_of(e->opt->version) * sizeof(void *);
	if (size != want)
		fail("the vtable has %zu bytes, want %zu", size, want);
	for (int i = 0; i < slots_of(e->opt->version); i++)
		if (e->net.table[i] == NULL && !may_be_null(i))
			fail("slot %d of the vtable is NULL, and NCCL calls it without a check", i);
	if (strcmp(e->net.table[NAME], "goemu") != 0)
		fail("the net's name is %s", (char *)e->net.table[NAME]);
	meet(e, 0);
}

union value {
	char *text;
	uint64_t u64;
	int i;
	float f;
	int16_t s;
};

// value_of reads a field; 0 if the version does not have it.
static int value_of(int version, const char *props, const char *name, union value *v)
{
	for (const struct field *f = fields_of(version); f->name != NULL; f++) {
		if (strcmp(f->name, name) != 0)
			continue;
		static const size_t sizes[] = {
			[TEXT] = 8, [U64] = 8, [SIZE] = 8, [INT] = 4, [FLOAT] = 4, [SHORT] = 2
		};
		*v = (union value){ 0 };
		memcpy(v, props + f->at, sizes[f->kind]);
		return 1;
	}
	return 0;
}

// range fails the case unless an int field of the properties, if the version has it, is within bounds.
static void range(int version, const char *props, const char *name, int least, int most)
{
	union value v;
	if (value_of(version, props, name, &v) && (v.i < least || v.i > most))
		fail("%s is %d, want %d to %d", name, v.i, least, most);
}

static void judge(int version, const char *props, int dev)
{
	union value v;
	char name[24];
	snprintf(name, sizeof name, "goemu%d", dev);
	if (!value_of(version, props, "name", &v) || v.text == NULL || strcmp(v.text, name) != 0)
		fail("the name of NIC %d is not %s", dev, name);
	if (!value_of(version, props, "pciPath", &v) || v.text != NULL)
		fail("an emulated NIC has a PCI path");
	range(version, props, "ptrSupport", MEMORY_HOST, MEMORY_HOST);
	range(version, props, "regIsGlobal", 0, 1);
	range(version, props, "forceFlush", 0, 1);
	range(version, props, "speed", 1000, 1000); // eth1
	range(version, props, "port", 0, 0); // as NET/Socket's
	range(version, props, "maxComms", 1024, 1 << 20);
	range(version, props, "maxRecvs", 1, 8);
	range(version, props, "netDeviceType", 0, 0);
	range(version, props, "netDeviceVersion", 0, 0);
	range(version, props, "ndevs", 1, 1);
	range(version, props, "devs[0]", dev, dev);
	range(version, props, "maxMultiRequestSize", 1, 1 << 20);
	// NET/Socket tells none, whatever the link has: 25 us on eth1.
	float latency = getenv("DDLEMU_NCCL_LATENCY") == NULL ? 0 : 25;
	if (!value_of(version, props, "latency", &v) || v.f != latency)
		fail("latency is %g us, want %g", v.f, latency);
	static const char *const most[] = { "maxP2pBytes", "maxCollBytes" };
	for (int i = 0; i < 2; i++)
		if (value_of(version, props, most[i], &v) && (v.u64 < 1 << 30 || v.u64 > 1ull << 40))
			fail("%s is %llu, want 1 GiB to 1 TiB", most[i], (unsigned long long)v.u64);
	static const char *const ids[] = { "railId", "planeId" };
	for (int i = 0; i < 2; i++)
		if (value_of(version, props, ids[i], &v) && v.s != -1)
			fail("%s is %d, want -1 (undefined)", ids[i], v.s);
}

#define MOST 512

// properties reads the properties into memory whose bytes are all `poison`.
static void properties(struct end *e, int dev, char *memory, int poison)
{
	memset(memory, poison, MOST);
	CHECK(net_properties(&e->net, dev, memory));
	for (size_t i = properties_size(e->opt->version); i < MOST; i++)
		if (memory[i] != (char)poison)
			fail("getProperties wrote byte %zu of a struct of %zu", i, properties_size(e->opt->version));
}

// NCCL passes uninitialised memory: the plugin must write every field.
void case_properties(struct end *e)
{
	char once[MOST], again[MOST];
	union value guid[2];
	int n = 0;
	begin(e);
	CHECK(net_devices(&e->net, &n));
	if (n != 2)
		fail("%d NICs, want 2", n);
	for (int dev = 0; dev < n; dev++) {
		properties(e, dev, once, 0xa5);
		properties(e, dev, again, 0x5a);
		for (size_t i = 0; i < properties_size(e->opt->version); i++)
			if (once[i] != again[i])
				fail("getProperties did not write byte %zu of %zu", i,
					properties_size(e->opt->version));
		judge(e->opt->version, once, dev);
		value_of(e->opt->version, once, "guid", &guid[dev]);
	}
	if (guid[0].u64 == 0 || guid[0].u64 == guid[1].u64)
		fail("two NICs have the guids %llx and %llx", (unsigned long long)guid[0].u64,
			(unsigned long long)guid[1].u64);
	if (net_properties(&e->net, n, once) == SUCCESS || net_properties(&e->net, -1, once) == SUCCESS)
		fail("a NIC that does not exist has properties");
	meet(e, 0);
}
