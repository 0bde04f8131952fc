// SPDX-License-Identifier: Apache-2.0
//
// What the calls of every datapath need: the text of a failure, the clock, and the result
// to a call that this kind of connection does not have.
#ifndef DDLEMU_CALL_H
#define DDLEMU_CALL_H

#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "transport.h"

// This thread's last failure, for ddlemu_take_error.
extern __thread char ddlemu_error_text[160];
extern __thread int ddlemu_error_set;

// FAIL is result, and keeps the text for it.
#define FAIL(result, ...) \
	(snprintf(ddlemu_error_text, sizeof ddlemu_error_text, __VA_ARGS__), ddlemu_error_set = 1, (result))

static inline int64_t clock_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

#define RANK_DIED_TEXT "rank %d of the job died"

// The isend of a receive connection and the irecv of a send connection.
int ddlemu_no_isend(struct ddlemu_comm *, const void *data, size_t size, struct ddlemu_request **request);
int ddlemu_no_irecv(struct ddlemu_comm *, void *data, size_t size, struct ddlemu_request **request);

#endif
