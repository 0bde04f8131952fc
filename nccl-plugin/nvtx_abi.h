// SPDX-License-Identifier: Apache-2.0
//
// How a library gets the calls of NVTX, NVIDIA's interface for annotations: the parts of it that nvtx.c uses.
//
// Each program and library that uses NVTX has the headers' code in it, with variables of its own. At its first call it
// loads the library in NVTX_INJECTION64_PATH and calls its InitializeInjectionNvtx2, which asks for the tables of the
// calls and puts its own functions there. What it leaves out does nothing.
//
// Source: https://github.com/NVIDIA/NVTX, nvtx3/nvToolsExt.h and nvtx3/nvtxDetail/nvtxTypes.h, versions 3.0 to 3.2.
#ifndef DDLEMU_NVTX_ABI_H
#define DDLEMU_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

// The tables that can be asked for, and their modules of calls.
enum { NVTX_TABLE_OF_CALLS = 1 };
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_DOMAINS = 5 };

// The places of calls in NVTX_MODULE_CORE.
enum {
	NVTX_MARK_EX = 1,
	NVTX_MARK_A,
	NVTX_MARK_W,
	NVTX_RANGE_START_EX,
	NVTX_RANGE_START_A,
	NVTX_RANGE_START_W,
	NVTX_RANGE_END,
	NVTX_RANGE_PUSH_EX,
	NVTX_RANGE_PUSH_A,
	NVTX_RANGE_PUSH_W,
	NVTX_RANGE_POP,
	NVTX_CORE_CALLS
};

// The places of calls in NVTX_MODULE_DOMAINS.
enum {
	NVTX_DOMAIN_MARK_EX = 1,
	NVTX_DOMAIN_RANGE_START_EX,
	NVTX_DOMAIN_RANGE_END,
	NVTX_DOMAIN_RANGE_PUSH_EX,
	NVTX_DOMAIN_RANGE_POP,
	NVTX_DOMAIN_REGISTER_STRING_A = 10,
	NVTX_DOMAIN_REGISTER_STRING_W,
	NVTX_DOMAIN_CREATE_A,
	NVTX_DOMAIN_CREATE_W,
	NVTX_DOMAIN_CALLS
};

typedef void (*nvtx_call)(void);

struct nvtx_tables {
	size_t size; // of this struct
	// Gives an array of pointers to the variables with the calls. Returns 0 if there is no such module.
	int (*of_module)(int module, nvtx_call ***table, unsigned *size);
};

typedef const void *(*nvtx_get_table)(uint32_t id);

enum { NVTX_TEXT = 1, NVTX_WIDE_TEXT = 2, NVTX_REGISTERED = 3 };

// What is known about a range.
struct nvtx_attributes {
	uint16_t version, size; // of this struct
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t text_type;
	union {
		const char *text;
		const wchar_t *wide;
		const void *registered;
	} text;
};

enum { NVTX_NO_TRACKING = -2 }; // what a push and a pop return if nothing is kept

#endif
