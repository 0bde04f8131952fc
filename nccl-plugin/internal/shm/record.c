// SPDX-License-Identifier: Apache-2.0

#include "record.h"

#include "../transport/slots.h"

static uint32_t bounded(int64_t ns) { return (uint32_t)min64(max64(ns, 0), UINT32_MAX); }

// note_time notes that NCCL has called, in the calls of this thread.
static inline void note_time(struct ddlemu_calls *calls, int64_t now)
{
	if (calls->outstanding > 0)
		calls->gap = max64(calls->gap, now - calls->last);
	calls->last = now;
}

void record_call(int64_t now) { note_time(ddlemu_calls(), now); }

void record_post(struct ddlemu_conn *c, struct ddlemu_conn_request *r, int64_t now)
{
	struct ddlemu_calls *calls = ddlemu_calls();
	note_time(calls, now);
	struct ddlemu_record *record = ledger_begin(&c->ledger, &r->base.record);
	record->kind = is_sender(c) ? DDLEMU_SEND : DDLEMU_RECEIVE;
	record->late = is_sender(c) && c->clock == NULL ? bounded(calls->gap) : 0;
	record->conn = c->ledger_conn;
	record->op = is_sender(c) && ddlemu_has_slots ? ddlemu_slot_op(r->data) : 0;
	record->msg = r->msg;
	record->size = r->size;
	record->posted = now;
	record->modelled = record->returned = 0;
	ledger_end(record, r->base.record);
	if (!is_sender(c) && ddlemu_has_slots)
		ddlemu_slot_receives(r->data, r->base.record);
	calls->posted = &r->base;
	calls->outstanding++;
	calls->gap = 0;
}

void record_visible(struct ddlemu_conn_request *r, int64_t visible) { r->visible = visible; }

void record_return(struct ddlemu_conn *c, const struct ddlemu_conn_request *r, int64_t now)
{
	ddlemu_calls()->outstanding--;
	if (!ledger_has(&c->ledger, r->base.record))
		return;
	struct ddlemu_record *record = ledger_at(&c->ledger, r->base.record);
	const struct ddlemu_times *t = times_at(c->f, r->msg);
	if (!is_sender(c))
		record->late = bounded(r->visible - max64(read_time(&t->due), receive_posted(c->f, r->msg)));
	record->size = r->size;
	record->modelled = read_time(is_sender(c) ? &t->complete : &t->due);
	__atomic_store_n(&record->returned, now, __ATOMIC_RELEASE);
}

void record_failure(const struct ddlemu_conn *c, const struct ddlemu_conn_request *r, int64_t now)
{
	struct ddlemu_record *record = ledger_at(&c->ledger, r->base.record);
	if (ledger_has(&c->ledger, r->base.record) && record->modelled == 0)
		record->modelled = now;
}
