// SPDX-License-Identifier: Apache-2.0
//
// The ledger of a process: what its ends of connections did, one record of 64 bytes for each thing, in a file that the
// process maps. layout.go is the same in Go; a test compares the two.
//
// The records are a ring: a new one takes the place of the oldest. Any number of threads write, without a lock. What is
// written stays if the process is killed. A reader, which may read at any time, knows by a record's number whether it
// is whole (read.go).
//
// All fields are little-endian. Times are ns of the fabric's clock, already multiplied by the time scale.
#ifndef DDLEMU_LEDGER_H
#define DDLEMU_LEDGER_H

#include <stdint.h>

#define DDLEMU_LEDGER_MAGIC 0x31676c756d656464ull // "ddemulg1"
#define DDLEMU_LEDGER_VERSION 1
#define DDLEMU_LEDGER_CONNECTIONS 4096 // where the table of connections begins
#define DDLEMU_LEDGER_RECORDS (DDLEMU_LEDGER_CONNECTIONS + 64 * 16384)

// What a record is about.
enum ddlemu_record_kind {
	DDLEMU_SENT = 1, // a send, when test has returned it
	DDLEMU_RECEIVED = 2, // a receive, when test has returned it
};

struct ddlemu_record {
	uint64_t number; // 1 + the records before it; atomic, stored last
	uint32_t kind;
	uint32_t late; // ns; received: how late the bytes were visible; at most UINT32_MAX
	uint64_t flow, msg; // the connection, and the message's number in it: both ends have the same
	uint64_t size; // bytes
	int64_t posted; // by this end
	int64_t modelled; // sent: when the model says that the send is complete; received: when the message is due
	int64_t returned; // by test
};

// The begin of the file. A table of connections follows, which only Go writes, then the records.
struct ddlemu_ledger {
	uint64_t magic;
	uint32_t version, record_size;
	uint64_t capacity; // records in the file, a power of two
	uint64_t fabric_id;
	uint32_t job, rank, node, world;
	uint32_t pid, virtual_clock;
	int64_t time_scale, begun;
	uint64_t connections; // in the table; atomic
	uint64_t lost_connections; // that had no place there; atomic
	_Alignas(128) uint64_t next; // records so far; atomic
};

// A ledger as the writer sees it.
struct ddlemu_ledger_view {
	uint64_t *next;
	struct ddlemu_record *records;
	uint64_t mask;
};

// ledger_begin takes the place of the next record. The caller fills it and calls ledger_end with its number. Until then
// the place has the number of the record before, and `next` says that this one is gone.
static inline struct ddlemu_record *ledger_begin(const struct ddlemu_ledger_view *l, uint64_t *number)
{
	uint64_t i = __atomic_fetch_add(l->next, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); // whoever sees a new field also sees `next`
	*number = i + 1;
	return &l->records[i & l->mask];
}

static inline void ledger_end(struct ddlemu_record *r, uint64_t number)
{
	__atomic_store_n(&r->number, number, __ATOMIC_RELEASE);
}

#endif
