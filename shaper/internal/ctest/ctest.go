// SPDX-License-Identifier: Apache-2.0

// Package ctest has what tests of Go packages need of C: a test file cannot use cgo. It imports none of these packages,
// so that their own tests can import it. The caller says which memory has a struct of C.
package ctest

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -Werror
#include "../../engine/link/congestion.h"
#include "../../engine/link/cubic.h"
#include "../../engine/sim/sim.h"
#include "../../fabric/ledger/ledger.h"
#include "../../fabric/state/layout.h"

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

// Struct has the structs of C that Go has too, by their names without ddlemu_.
var Struct = map[string]reflect.Type{
	"params":         reflect.TypeFor[C.struct_ddlemu_params](),
	"hop":            reflect.TypeFor[C.struct_ddlemu_hop](),
	"transport":      reflect.TypeFor[C.struct_ddlemu_transport](),
	"block":          reflect.TypeFor[C.struct_ddlemu_block](),
	"hop_record":     reflect.TypeFor[C.struct_ddlemu_hop_record](),
	"planned_change": reflect.TypeFor[C.struct_ddlemu_planned_change](),
	"ledger":         reflect.TypeFor[C.struct_ddlemu_ledger](),
	"record":         reflect.TypeFor[C.struct_ddlemu_record](),
	"task_record":    reflect.TypeFor[C.struct_ddlemu_task_record](),
	"range_record":   reflect.TypeFor[C.struct_ddlemu_range_record](),
	"kernel_record":  reflect.TypeFor[C.struct_ddlemu_kernel_record](),
	"channel_record": reflect.TypeFor[C.struct_ddlemu_channel_record](),
	"op_record":      reflect.TypeFor[C.struct_ddlemu_op_record](),
	"header":         reflect.TypeFor[C.struct_ddlemu_header](),
	"gpu":            reflect.TypeFor[C.struct_ddlemu_gpu](),
	"node_time":      reflect.TypeFor[C.struct_ddlemu_node_time](),
	"send_cost":      reflect.TypeFor[C.struct_ddlemu_send_cost](),
	"gpu_group":      reflect.TypeFor[C.struct_ddlemu_gpu_group](),
	"class":          reflect.TypeFor[C.struct_ddlemu_class](),
	"pauses":         reflect.TypeFor[C.struct_ddlemu_pauses](),
	"link_stats":     reflect.TypeFor[C.struct_ddlemu_link_stats](),
}

// LedgerConstants are those constants of ledgers that Go has too.
var LedgerConstants = map[string]uint64{
	"magic": C.DDLEMU_LEDGER_MAGIC, "version": C.DDLEMU_LEDGER_VERSION, "records": C.DDLEMU_LEDGER_RECORDS,
	"connections": C.DDLEMU_LEDGER_CONNECTIONS, "send": C.DDLEMU_SEND, "receive": C.DDLEMU_RECEIVE,
	"task": C.DDLEMU_TASK, "op": C.DDLEMU_OP, "kernel task": C.DDLEMU_KERNEL_TASK, "kernel": C.DDLEMU_KERNEL,
	"channel": C.DDLEMU_CHANNEL, "range": C.DDLEMU_RANGE, "pushed": C.DDLEMU_PUSHED, "started": C.DDLEMU_STARTED,
	"mark": C.DDLEMU_MARK, "names": C.DDLEMU_LEDGER_NAMES, "names' size": C.DDLEMU_LEDGER_NAMES_SIZE,
	"most connections": C.DDLEMU_LEDGER_MAX_CONNECTIONS, "unknown": C.DDLEMU_UNKNOWN,
}

// Streams of draws.
const (
	StreamOfJitter = C.DRAW_JITTER
	StreamOfLoss   = C.DRAW_LOSS
	StreamOfState  = C.DRAW_STATE
)

// Draw is link.Draw as the engine and the eBPF programs have it.
func Draw(seed uint64, hop, kind uint32, flow, counter uint64) uint64 {
	return uint64(C.draw(C.uint64_t(seed), C.uint32_t(hop), C.uint32_t(kind), C.uint64_t(flow), C.uint64_t(counter)))
}

// CubeRoot is the root that CUBIC computes.
func CubeRoot(x uint64) uint64 { return uint64(C.cube_root(C.uint64_t(x))) }

// CubicK is the time, in 1/1024 s, at which CUBIC's window is again the one before a loss. Windows are in bytes.
func CubicK(wMax, cwnd, packet uint64) int64 {
	return int64(C.cubic_k(C.uint64_t(wMax), C.uint64_t(cwnd), C.uint64_t(packet)))
}

// CubicWindow is CUBIC's window at a time, in 1/1024 s, from K.
func CubicWindow(wMax uint64, t int64, packet uint64) uint64 {
	return uint64(C.w_cubic(C.uint64_t(wMax), C.int64_t(t), C.uint64_t(packet)))
}

// SetWindow sets the congestion window of a struct ddlemu_flow, in bytes, at the end of slow start.
func SetWindow(flow unsafe.Pointer, bytes uint64) {
	f := (*C.struct_ddlemu_flow)(flow)
	f.window.cwnd, f.window.ssthresh = C.uint64_t(bytes<<10), C.uint64_t(bytes<<10)
}

// LoseTwice makes the newest of the segments that a struct ddlemu_flow keeps one that was lost, and lost again when it
// was sent again. It returns when its first copy was sent.
func LoseTwice(flow unsafe.Pointer) (sent func() int64) {
	f := (*C.struct_ddlemu_flow)(flow)
	s := &f.kept[(f.at[0]-1)%C.DDLEMU_MAX_SEGMENTS]
	s.flags |= C.SEGMENT_LOST | C.SEGMENT_TIMEOUT
	return func() int64 { return int64(s.first_copy) }
}

// SimStep is the class of an entry of the event loop that is a step of a flow.
const SimStep = C.DDLEMU_SIM_STEP

// RanksOf is the sender and the receiver of a flow of this order.
func RanksOf(order uint64) (sender, receiver int) {
	return int(C.sender_of(C.uint64_t(order))), int(C.receiver_of(C.uint64_t(order)))
}

// WriteSome writes n records of a flow to the memory of a ledger, as the plugin does.
func WriteSome(ledger unsafe.Pointer, capacity, flow, n uint64) {
	C.write_some(ledger, C.uint64_t(capacity), C.uint64_t(flow), C.uint64_t(n))
}

// BeginOne begins a record, as a process that is killed before it ends it.
func BeginOne(ledger unsafe.Pointer, capacity uint64) { C.begin_one(ledger, C.uint64_t(capacity)) }
