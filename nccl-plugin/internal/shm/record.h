// SPDX-License-Identifier: Apache-2.0
//
// What the ends write into the process's ledger. Without a ledger each call costs one comparison for it: the functions
// that write are cold, so the compiler puts the code that calls them into the section for code that is rarely run.
// Times are ns of the fabric's clock.
#ifndef DDLEMU_SHM_RECORD_H
#define DDLEMU_SHM_RECORD_H

#include "conn.h"

void record_call(int64_t now) __attribute__((cold));
void record_post(struct ddlemu_conn *, struct ddlemu_conn_request *, int64_t now) __attribute__((cold));
void record_visible(struct ddlemu_conn_request *, int64_t visible) __attribute__((cold));
void record_return(struct ddlemu_conn *, const struct ddlemu_conn_request *, int64_t now) __attribute__((cold));
void record_failure(const struct ddlemu_conn *, const struct ddlemu_conn_request *, int64_t now) __attribute__((cold));

static inline bool has_ledger(const struct ddlemu_conn *c) { return c->ledger.next != NULL; }

// note_call notes that NCCL has called, in the calls of this thread.
static inline void note_call(const struct ddlemu_conn *c, int64_t now)
{
	if (has_ledger(c))
		record_call(now);
}

// note_post makes the record of a request, which has just been posted.
static inline void note_post(struct ddlemu_conn *c, struct ddlemu_conn_request *r, int64_t now)
{
	if (has_ledger(c))
		record_post(c, r, now);
}

// note_return completes the record of a request, which test returns now.
static inline void note_return(struct ddlemu_conn *c, const struct ddlemu_conn_request *r, int64_t now)
{
	if (has_ledger(c))
		record_return(c, r, now);
}

// report returns the result of a test of a request, which is not complete. The record of the request keeps when test
// first reported a failure.
static inline int report(const struct ddlemu_conn *c, const struct ddlemu_conn_request *r, int64_t now, int result)
{
	if (result != DDLEMU_SUCCESS && has_ledger(c))
		record_failure(c, r, now);
	return result;
}

#endif
