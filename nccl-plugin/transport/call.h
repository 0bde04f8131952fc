// SPDX-License-Identifier: Apache-2.0
//
// What the calls of every datapath need: this thread's last failure in words, the
// clock, and the answer to a call that its kind of connection does not have. For one C
// file of a datapath, which has these words to itself.
#ifndef DDLEMU_CALL_H
#define DDLEMU_CALL_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "transport.h"

static __thread char error_text[160];
static __thread int error_set;

// FAIL is result, with the words for it.
#define FAIL(result, ...) (snprintf(error_text, sizeof error_text, __VA_ARGS__), error_set = 1, (result))

// take_error is the last failure of this thread, NULL if there was none since.
static inline const char *take_error(void)
{
	if (!error_set)
		return NULL;
	error_set = 0;
	return error_text;
}

static inline int64_t clock_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static inline int not_here(struct ddlemu_comm *comm, const void *data, size_t size, struct ddlemu_request **request)
{
	(void)comm, (void)data, (void)size;
	*request = NULL;
	return FAIL(DDLEMU_INVALID_USAGE, "isend on a receive connection or irecv on a send connection");
}

static inline int not_here_either(struct ddlemu_comm *comm, void *data, size_t size, struct ddlemu_request **request)
{
	return not_here(comm, data, size, request);
}

#endif
