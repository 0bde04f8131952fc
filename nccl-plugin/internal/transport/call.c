// SPDX-License-Identifier: Apache-2.0

#include "call.h"

__thread char ddlemu_error_text[160];
__thread int ddlemu_error_set;
struct ddlemu_calls *ddlemu_calls(void)
{
	static __thread struct ddlemu_calls calls;
	return &calls;
}

const char *ddlemu_take_error(void)
{
	if (!ddlemu_error_set)
		return NULL;
	ddlemu_error_set = 0;
	return ddlemu_error_text;
}

// FNV-1a
static uint32_t hash(const char *text)
{
	uint32_t h = 2166136261u;
	for (; *text != 0; text++)
		h = (h ^ (unsigned char)*text) * 16777619u;
	return h;
}

bool ddlemu_error_is_new(struct ddlemu_comm *comm)
{
	uint32_t text = ddlemu_error_set ? hash(ddlemu_error_text) : hash("");
	bool is_new = text != comm->reported;
	comm->reported = text;
	ddlemu_error_set &= is_new;
	return is_new;
}

int ddlemu_refuse_size(size_t size) { return FAIL(DDLEMU_INVALID_USAGE, "a message of %zu bytes is too long", size); }

int ddlemu_no_isend(struct ddlemu_comm *comm, const void *data, size_t size, struct ddlemu_request **request)
{
	*request = NULL;
	return FAIL(DDLEMU_INVALID_USAGE, "isend on a receive connection or irecv on a send connection");
}

int ddlemu_no_irecv(struct ddlemu_comm *comm, void *data, size_t size, struct ddlemu_request **request)
{
	return ddlemu_no_isend(comm, data, size, request);
}
