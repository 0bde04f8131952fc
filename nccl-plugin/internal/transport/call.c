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

int ddlemu_no_isend(struct ddlemu_comm *comm, const void *data, size_t size, struct ddlemu_request **request)
{
	*request = NULL;
	return FAIL(DDLEMU_INVALID_USAGE, "isend on a receive connection or irecv on a send connection");
}

int ddlemu_no_irecv(struct ddlemu_comm *comm, void *data, size_t size, struct ddlemu_request **request)
{
	return ddlemu_no_isend(comm, data, size, request);
}
