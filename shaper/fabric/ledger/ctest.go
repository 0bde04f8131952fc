// SPDX-License-Identifier: Apache-2.0

package ledger

/*
#include "ledger.h"

static void write_some(void *mem, uint64_t capacity, uint64_t flow, uint64_t n)
{
	struct ddlemu_ledger *l = mem;
	struct ddlemu_ledger_view v = { &l->next, (void *)((char *)mem + DDLEMU_LEDGER_RECORDS), capacity - 1 };
	for (uint64_t i = 0; i < n; i++) {
		uint64_t number;
		struct ddlemu_record *r = ledger_begin(&v, &number);
		r->kind = DDLEMU_SEND;
		r->late = (uint32_t)i;
		r->conn = (uint32_t)flow;
		r->op = 0;
		r->msg = i;
		r->size = flow ^ i;
		r->posted = r->modelled = r->returned = (int64_t)(flow + i);
		ledger_end(r, number);
	}
}

// begin_one begins a record and does not end it.
static void begin_one(void *mem, uint64_t capacity)
{
	struct ddlemu_ledger *l = mem;
	struct ddlemu_ledger_view v = { &l->next, (void *)((char *)mem + DDLEMU_LEDGER_RECORDS), capacity - 1 };
	uint64_t number;
	ledger_begin(&v, &number);
}
*/
import "C"

import (
	"reflect"
	"unsafe"
)

// What tests need of C: a test file cannot use cgo.

// layouts are the structs of the file, each with its twin in ledger.h.
func layouts() [][2]reflect.Type {
	return [][2]reflect.Type{
		{reflect.TypeFor[header](), reflect.TypeFor[C.struct_ddlemu_ledger]()},
		{reflect.TypeFor[Record](), reflect.TypeFor[C.struct_ddlemu_record]()},
		{reflect.TypeFor[Task](), reflect.TypeFor[C.struct_ddlemu_task_record]()},
		{reflect.TypeFor[RangeRecord](), reflect.TypeFor[C.struct_ddlemu_range_record]()},
		{reflect.TypeFor[Kernel](), reflect.TypeFor[C.struct_ddlemu_kernel_record]()},
		{reflect.TypeFor[Channel](), reflect.TypeFor[C.struct_ddlemu_channel_record]()},
		{reflect.TypeFor[Op](), reflect.TypeFor[C.struct_ddlemu_op_record]()},
	}
}

// constants are the constants that C has too, each with its twin in ledger.h.
func constants() map[string][2]uint64 {
	return map[string][2]uint64{
		"magic": {magic, C.DDLEMU_LEDGER_MAGIC}, "version": {version, C.DDLEMU_LEDGER_VERSION},
		"records":     {recordsAt, C.DDLEMU_LEDGER_RECORDS},
		"connections": {connectionsAt, C.DDLEMU_LEDGER_CONNECTIONS},
		"send":        {uint64(Send), C.DDLEMU_SEND}, "receive": {uint64(Receive), C.DDLEMU_RECEIVE},
		"task": {uint64(TaskKind), C.DDLEMU_TASK}, "op": {uint64(OpKind), C.DDLEMU_OP},
		"kernel task": {uint64(KernelTask), C.DDLEMU_KERNEL_TASK},
		"kernel":      {uint64(KernelKind), C.DDLEMU_KERNEL}, "channel": {uint64(ChannelKind), C.DDLEMU_CHANNEL},
		"range": {uint64(RangeKind), C.DDLEMU_RANGE}, "pushed": {uint64(Pushed), C.DDLEMU_PUSHED},
		"started": {uint64(Started), C.DDLEMU_STARTED}, "mark": {uint64(Mark), C.DDLEMU_MARK},
		"names": {namesAt, C.DDLEMU_LEDGER_NAMES}, "names' size": {namesSize, C.DDLEMU_LEDGER_NAMES_SIZE},
		"most connections": {maxConnections, C.DDLEMU_LEDGER_MAX_CONNECTIONS}, "unknown": {Unknown, C.DDLEMU_UNKNOWN},
	}
}

// writeSome writes n records of a flow, as the plugin does.
func writeSome(l *Ledger, flow, n uint64) {
	C.write_some(unsafe.Pointer(&l.mem[0]), C.uint64_t(l.capacity), C.uint64_t(flow), C.uint64_t(n))
}

// beginOne begins a record, as a process that is killed before it ends it.
func beginOne(l *Ledger) { C.begin_one(unsafe.Pointer(&l.mem[0]), C.uint64_t(l.capacity)) }
