// SPDX-License-Identifier: Apache-2.0
//
// The ledger of a process: what its ends of connections did, and what NCCL says that it was for. One record of 64 bytes
// for each thing, in a file that the process maps. layout.go is the same in Go; a test compares the two.
//
// The records are a ring: a new one takes the place of the oldest. Any number of threads write, without a lock. What is
// written stays if the process is killed. A reader, which may read at any time, knows by a record's number whether it
// is whole (read.go).
//
// All fields are little-endian. Times are ns of the fabric's clock, already multiplied by the time scale.
#ifndef DDLEMU_LEDGER_H
#define DDLEMU_LEDGER_H

#include <stdbool.h>

#include "record.h"

#define DDLEMU_LEDGER_MAGIC 0x31676c756d656464ull // "ddemulg1"
#define DDLEMU_LEDGER_VERSION 4
#define DDLEMU_LEDGER_AHEAD 4 // records
#define DDLEMU_LEDGER_CONNECTIONS 4096 // where the table of connections begins
#define DDLEMU_LEDGER_MAX_CONNECTIONS 16384
#define DDLEMU_LEDGER_NAMES (DDLEMU_LEDGER_CONNECTIONS + 64 * DDLEMU_LEDGER_MAX_CONNECTIONS)
#define DDLEMU_LEDGER_NAMES_SIZE (1 << 20) // bytes
#define DDLEMU_LEDGER_RECORDS (DDLEMU_LEDGER_NAMES + DDLEMU_LEDGER_NAMES_SIZE)

// The begin of the file. A table of connections follows, which only Go writes, then the names of ranges, each with a 0
// behind it, then the records.
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
	int64_t begun_realtime; // CLOCK_REALTIME at begun, ns
	uint32_t nccl; // version of NCCL as ncclGetVersion says it, for example 22907; 0: not known
	uint32_t unused;
	uint64_t names; // bytes of names; atomic. The first one is a 0, so that no name has the number 0
	uint64_t lost_ranges; // that were not noted, or lost their name, because there was no place; atomic
	_Alignas(128) uint64_t next; // records so far; atomic
};

// A ledger as the writer sees it.
struct ddlemu_ledger_view {
	uint64_t *next;
	struct ddlemu_record *records;
	uint64_t mask;
};

// ledger_at is the record with a number. It may be another one by now.
static inline struct ddlemu_record *ledger_at(const struct ddlemu_ledger_view *l, uint64_t number)
{
	return &l->records[(number - 1) & l->mask];
}

// ledger_has says whether the record with a number is still there. Nobody else writes to it, unless the other threads
// fill the whole ledger before the caller has written.
static inline bool ledger_has(const struct ddlemu_ledger_view *l, uint64_t number)
{
	return number != 0 && __atomic_load_n(&ledger_at(l, number)->number, __ATOMIC_RELAXED) == number;
}

// ledger_begin takes the place of the next record. The caller fills it and calls ledger_end with its number. Until then
// the place has the number of the record before, and `next` says that this one is gone.
static inline struct ddlemu_record *ledger_begin(const struct ddlemu_ledger_view *l, uint64_t *number)
{
	uint64_t i = __atomic_fetch_add(l->next, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); // whoever sees a new field also sees `next`
	// A place was last used long ago, so it is in no cache: fetch the places of the next records.
	__builtin_prefetch(&l->records[(i + DDLEMU_LEDGER_AHEAD) & l->mask], 1);
	*number = i + 1;
	return ledger_at(l, i + 1);
}

static inline void ledger_end(struct ddlemu_record *r, uint64_t number)
{
	__atomic_store_n(&r->number, number, __ATOMIC_RELEASE);
}

#endif
