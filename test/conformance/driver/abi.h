// SPDX-License-Identifier: Apache-2.0
//
// NCCL's net API v6 to v12, described independently of the plugin's header: a vtable is an array of pointers, and the
// properties of a NIC are bytes at offsets. A mistake in one of the two descriptions fails a test.
#ifndef CONFORMANCE_ABI_H
#define CONFORMANCE_ABI_H

#include <stddef.h>
#include <stdint.h>

#define FIRST_VERSION 6
#define LAST_VERSION 12
#define HANDLE_SIZE 128
#define MAX_REQUESTS 32
#define MEMORY_HOST 1
#define MEMORY_CUDA 2

enum result { SUCCESS, UNHANDLED_CUDA, SYSTEM, INTERNAL, INVALID_ARGUMENT, INVALID_USAGE, REMOTE };

// Positions in the vtable. Later versions only append.
enum slot {
	NAME,
	INIT,
	DEVICES,
	GET_PROPERTIES,
	LISTEN,
	CONNECT,
	ACCEPT,
	REG_MR,
	REG_MR_DMABUF,
	DEREG_MR,
	ISEND,
	IRECV,
	IFLUSH,
	TEST,
	CLOSE_SEND,
	CLOSE_RECV,
	CLOSE_LISTEN, // v6
	GET_DEVICE_MR,
	IRECV_CONSUMED, // v7
	MAKE_VDEVICE, // v9
	FINALIZE,
	SET_NET_ATTR, // v11
	SLOTS
};

// How many pointers the vtable of a version has.
int slots_of(int version);
// Whether NCCL checks a slot for NULL before it calls it.
int may_be_null(enum slot);

enum kind { TEXT, U64, SIZE, INT, FLOAT, SHORT };

// One field of a NIC's properties.
struct field {
	const char *name;
	enum kind kind;
	size_t at;
};

// The fields of a version, ended by one without a name, and the size of the struct.
const struct field *fields_of(int version);
size_t properties_size(int version);

#endif
