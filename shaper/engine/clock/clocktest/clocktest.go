// SPDX-License-Identifier: Apache-2.0

// Package clocktest is a clock whose ranks do what a test says.
package clocktest

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#include <stdlib.h>
#include <string.h>
#include "../../link/parameters.h"
#include "../clock.h"

static void *zeros(size_t n)
{
	void *p = aligned_alloc(4096, (n + 4095) & ~(size_t)4095);
	if (p != NULL)
		memset(p, 0, n);
	return p;
}

// idle_until makes the application of the view's participant idle, without sleeping.
static void idle_until(struct ddlemu_clock_view *v, enum ddlemu_clock_number number, int64_t t)
{
	struct ddlemu_actor *a = ddlemu_actor_application(v);
	uint64_t seen = number_read(&v->nodes[v->node].number[number]);
	a->until = t;
	__atomic_store_n(&a->state, DDLEMU_IDLE | (uint64_t)number << 32 | seen, __ATOMIC_SEQ_CST);
}

static void idle(struct ddlemu_clock_view *v) { idle_until(v, DDLEMU_EVENTS, DDLEMU_NEVER); }

static void idle_timer(struct ddlemu_clock_view *v, int64_t t) { idle_until(v, DDLEMU_SIGNALS, t); }

// idle_of_fabric makes it idle with a number that is not a node's.
static void idle_of_fabric(struct ddlemu_clock_view *v, enum ddlemu_clock_number number)
{
	struct ddlemu_actor *a = ddlemu_actor_application(v);
	a->until = DDLEMU_NEVER;
	__atomic_store_n(&a->state,
		DDLEMU_IDLE | (uint64_t)number << 32 | number_read(number_of(v, v->node, number)), __ATOMIC_SEQ_CST);
}

static void idle_settle(struct ddlemu_clock_view *v) { idle_of_fabric(v, (enum ddlemu_clock_number)DDLEMU_SETTLE); }

static void idle_sleep(struct ddlemu_clock_view *v) { idle_of_fabric(v, DDLEMU_HANDOVERS); }

static uint32_t settled(struct ddlemu_clock_view *v) { return number_read(&v->clock->settled); }

static void work(struct ddlemu_clock_view *v)
{
	__atomic_store_n(&ddlemu_actor_application(v)->state, 0, __ATOMIC_SEQ_CST);
}

static uint32_t events(struct ddlemu_clock_view *v, uint32_t node)
{
	return number_read(&v->nodes[node].number[DDLEMU_EVENTS]);
}


static struct ddlemu_clock_flow *make_flow(struct ddlemu_clock_view *v, uint32_t i)
{
	struct ddlemu_clock_flow *x = &v->flows->flow[i];
	memset(x, 0, offsetof(struct ddlemu_clock_flow, flow.sends));
	v->flows->in_use[i] = DDLEMU_FLOW_MADE;
	return x;
}

static struct ddlemu_clock_flow *flow_at(struct ddlemu_clock_view *v, uint32_t i) { return &v->flows->flow[i]; }

static int is_free(struct ddlemu_clock_view *v, struct ddlemu_clock_flow *x)
{
	return v->flows->in_use[clock_flow_number(v->flows, x)] == DDLEMU_FLOW_FREE;
}
*/
import "C"

import (
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// World is a clock in private memory, with one rank on each node. The ranks do not run: the
// test says what they do.
type World struct {
	memory []unsafe.Pointer
	views  []C.struct_ddlemu_clock_view
	flows  int
}

// New makes a clock with nodes, and hops that specs describe.
func New(nodes int, specs []link.Spec, t link.Transport, seed uint64) (*World, error) {
	w := &World{}
	alloc := func(n uint64) unsafe.Pointer {
		p := C.zeros(C.size_t(n))
		w.memory = append(w.memory, p)
		return p
	}
	memory := alloc(clock.Size(nodes, nodes))
	clock.Init(memory, nodes, nodes)
	flows := alloc(clock.FlowsHead + 16*clock.FlowSize)
	hops := unsafe.Slice((*link.Hop)(alloc(uint64(len(specs))*uint64(unsafe.Sizeof(link.Hop{})))), len(specs))
	blocks := unsafe.Slice((*link.Block)(alloc(uint64(len(specs))*uint64(unsafe.Sizeof(link.Block{})))), len(specs))
	for i, s := range specs {
		b, err := link.NewBlock(s, 1)
		if err != nil {
			return nil, err
		}
		hops[i], blocks[i] = link.Hop{ID: uint32(i), Block: uint32(i)}, b
	}
	transport := (*link.Transport)(alloc(uint64(unsafe.Sizeof(t))))
	*transport = t
	w.views = unsafe.Slice((*C.struct_ddlemu_clock_view)(alloc(uint64(nodes)*C.sizeof_struct_ddlemu_clock_view)), nodes)
	for i := range w.views {
		v := &w.views[i]
		C.ddlemu_clock_place(v, memory, flows)
		v.hops, v.participant = C.uint32_t(len(specs)), C.uint32_t(i)
		v.engine = C.struct_ddlemu_engine{
			transport: (*C.struct_ddlemu_transport)(unsafe.Pointer(transport)), seed: C.uint64_t(seed),
			hops:   (*C.struct_ddlemu_hop)(unsafe.Pointer(&hops[0])),
			blocks: (*C.struct_ddlemu_block)(unsafe.Pointer(&blocks[0])),
		}
		C.ddlemu_participant_join(v, C.uint32_t(i))
	}
	return w, nil
}

// Plan gives the clock planned changes of hops. Blocks of parameters are added to the blocks of the hops.
func (w *World) Plan(changes []link.PlannedChange, specs []link.Spec) error {
	v := &w.views[0]
	hops := int(v.hops)
	n := hops + len(changes)
	memory := C.zeros(C.size_t(uintptr(n) * unsafe.Sizeof(link.Block{})))
	table := C.zeros(C.size_t(uintptr(len(changes)) * unsafe.Sizeof(link.PlannedChange{})))
	w.memory = append(w.memory, memory, table)
	blocks := unsafe.Slice((*link.Block)(memory), n)
	copy(blocks, unsafe.Slice((*link.Block)(unsafe.Pointer(v.engine.blocks)), hops))
	planned := unsafe.Slice((*link.PlannedChange)(table), len(changes))
	for i, c := range changes {
		b, err := link.NewBlock(specs[i], 1)
		if err != nil {
			return err
		}
		blocks[hops+i] = b
		planned[i] = link.PlannedChange{Time: c.Time, Hop: c.Hop, Block: uint32(hops + i)}
	}
	for i := range w.views {
		v := &w.views[i]
		v.blocks, v.block = C.uint32_t(n), (*C.struct_ddlemu_block)(memory)
		v.engine.blocks = v.block
		v.planned, v.planned_count = (*C.struct_ddlemu_planned_change)(table), C.uint32_t(len(changes))
	}
	return nil
}

// PutInForce is the rule of the clock (put_in_force in C), for a test that compares it with link.PutInForce.
func PutInForce(h *link.Hop, blocks []link.Block, n uint32, now, retired int64) {
	C.put_in_force((*C.struct_ddlemu_hop)(unsafe.Pointer(h)), (*C.struct_ddlemu_block)(unsafe.Pointer(&blocks[0])),
		C.uint32_t(len(blocks)), C.uint32_t(n), C.int64_t(now), C.int64_t(retired))
}

// Close frees the memory.
func (w *World) Close() {
	for _, p := range w.memory {
		C.free(p)
	}
}

// Flow makes a flow from one node to another over these hops, and back over the same.
func (w *World) Flow(src, dst int, order uint64, hops []int) *Flow {
	x := C.make_flow(&w.views[0], C.uint32_t(w.flows))
	w.flows++
	x.sim.order, x.sender_node, x.receiver_node = C.uint64_t(order), C.uint32_t(src), C.uint32_t(dst)
	x.flow.id = C.uint64_t(order)
	x.flow.path.n, x.flow.path.reverse_n = C.uint32_t(len(hops)), C.uint32_t(len(hops))
	for i, h := range hops {
		x.flow.path.hop[i], x.flow.path.reverse[i] = C.uint32_t(h), C.uint32_t(h)
	}
	return x
}

// At is the flow with a number.
func (w *World) At(i int) *Flow {
	return C.flow_at(&w.views[0], C.uint32_t(i))
}

// Posted says that an end of a flow has posted or closed.
func (w *World) Posted(x *Flow) { C.ddlemu_flow_posted(&w.views[0], x) }

// Post posts a message of so many bytes now.
func (w *World) Post(x *Flow, size uint64) {
	C.flow_post(&x.flow, C.uint64_t(size), C.int64_t(w.Now()))
	w.Posted(x)
}

// Receive posts a receive now.
func (w *World) Receive(x *Flow) {
	C.flow_receive(&x.flow, 1<<40, C.int64_t(w.Now()))
	w.Posted(x)
}

// Times is when message i of a flow is due, and when its send is complete, in ns.
func (w *World) Times(x *Flow, i int) (due, complete int64) {
	t := &x.flow.times[i%link.MaxMessages]
	return int64(t.due), int64(t.complete)
}

// CloseFlow closes both ends of a flow.
func (w *World) CloseFlow(x *Flow) {
	x.flow.sender_closed, x.flow.receiver_closed = 1, 1
	w.Posted(x)
}

// NodeTime puts all ranks on node 0, whose GPUs have a link out and a link in each, from hop 0 on.
func (w *World) NodeTime(mesh bool) {
	t := (*C.struct_ddlemu_node_time)(C.zeros(C.sizeof_struct_ddlemu_node_time))
	w.memory = append(w.memory, unsafe.Pointer(t))
	t.on, t.gpus = 1, C.uint32_t(len(w.views))
	if mesh {
		t.mesh = 1
	}
	for i := range w.views {
		v := &w.views[i]
		v.node_time, v.flows_file, v.rank, v.ranks = t, -1, C.uint32_t(i), C.uint32_t(len(w.views))
		v.direct = C.clock_direct_transport(v.engine.transport)
		C.ddlemu_participant_join(v, 0)
	}
}

// Real puts the ranks on a real clock: they have the direct flows only.
func (w *World) Real() {
	for i := range w.views {
		w.views[i].clock = nil
	}
}

// LocksIn says where the record locks of the participants are: of each one a byte of a file.
func (w *World) LocksIn(file int) {
	for i := range w.views {
		w.views[i].fabric_file, w.views[i].lock_at, w.views[i].lock_step = C.int(file), 0, 1
	}
}

// PostAt is PostDirect at a time of a real clock.
func (w *World) PostAt(src int, flow, bytes uint64, t int64) bool {
	return bool(C.ddlemu_direct_post(&w.views[src], C.uint64_t(flow), C.uint64_t(bytes), C.int64_t(t), 0))
}

// ArrivedAt is Arrived at a time of a real clock.
func (w *World) ArrivedAt(dst int, flow uint64, t int64) uint64 {
	return uint64(C.ddlemu_direct_arrived(&w.views[dst], C.uint64_t(flow), 0, C.int64_t(t)))
}

// DirectTimes is what the model says of a message.
func (w *World) DirectTimes(dst int, flow, message uint64) (posted, due, distortion int64, ok bool) {
	var t C.struct_ddlemu_direct_times
	ok = bool(C.ddlemu_direct_times_of(&w.views[dst], C.uint64_t(flow), C.uint64_t(message), &t))
	return int64(t.posted), int64(t.due), int64(t.distortion), ok
}

// LockFlow is an end that stops while it makes the steps of a flow.
func LockFlow(x *Flow, locked bool) {
	x.flow.lock = 0
	if locked {
		x.flow.lock = C.DDLEMU_SENDER
	}
}

// Direct makes a direct flow from one rank to another, and returns its name.
func (w *World) Direct(src, dst int, kind uint32) uint64 {
	e := C.struct_ddlemu_direct_ends{src: C.uint32_t(src), dst: C.uint32_t(dst), kind: kind}
	return uint64(C.ddlemu_direct_make(&w.views[src], &e))
}

// PostDirect posts a message of a direct flow now, and reports whether the flow is there.
func (w *World) PostDirect(src int, flow, bytes uint64) bool {
	return bool(C.ddlemu_direct_post(&w.views[src], C.uint64_t(flow), C.uint64_t(bytes), C.int64_t(w.Now()), 0))
}

// Arrived is how many messages of a direct flow the rank on dst sees.
func (w *World) Arrived(dst int, flow uint64) uint64 {
	return uint64(C.ddlemu_direct_arrived(&w.views[dst], C.uint64_t(flow), 0, C.int64_t(w.Now())))
}

// LeaveDirect is a rank that leaves, or whose place is another's now.
func (w *World) LeaveDirect(rank int) { C.ddlemu_direct_close(&w.views[rank], C.uint32_t(rank)) }

// Fill takes all places that flows can have.
func (w *World) Fill() {
	for i := range w.views[0].flows.in_use {
		w.views[0].flows.in_use[i] = C.DDLEMU_FLOW_TAKEN
	}
}

// IsFree reports whether the place of a flow is free.
func (w *World) IsFree(x *Flow) bool { return C.is_free(&w.views[0], x) != 0 }

// Now is the time in ns.
func (w *World) Now() int64 { return int64(C.clock_read(w.views[0].clock)) }

// Idle is the rank on a node that waits.
func (w *World) Idle(node int) { C.idle(&w.views[node]) }

// SleepUntil is the rank on a node that waits for a virtual time.
func (w *World) SleepUntil(node int, t int64) {
	C.idle_timer(&w.views[node], C.int64_t(t))
}

// Settle is the rank on a node that waits until nothing is left to happen.
func (w *World) Settle(node int) { C.idle_settle(&w.views[node]) }

// Sleep is the rank on a node that sleeps outside of our calls.
func (w *World) Sleep(node int) { C.idle_sleep(&w.views[node]) }

// Settled is how often nothing was left to happen.
func (w *World) Settled() uint32 { return uint32(C.settled(&w.views[0])) }

// Work is the rank on a node that works again.
func (w *World) Work(node int) { C.work(&w.views[node]) }

// Events is how often the clock has woken a node.
func (w *World) Events(node int) uint32 { return uint32(C.events(&w.views[0], C.uint32_t(node))) }

// Run tries to run the clock as the rank on a node does.
func (w *World) Run(node int) { C.ddlemu_clock_run(&w.views[node]) }

// Leave is the orderly end of the rank on a node.
func (w *World) Leave(node int) { clock.Left(unsafe.Pointer(w.views[0].clock), node) }

// Flow is a flow of the clock.
type Flow = C.struct_ddlemu_clock_flow

// Interrupt is the rank on a node that runs the clock, up to the middle of a flow's steps. It
// has begun to change the heap.
func (w *World) Interrupt(node int, x *Flow) {
	f := w.views[0].flows
	w.views[0].clock.token = C.uint32_t(node + 1)
	w.views[0].clock.stepping = C.clock_flow_number(f, x) + 1
	f.first_posted = 0
	f.heap_size = 5
}

// Corrupt is a process that writes a time in the past to the first place of the heap.
func (w *World) Corrupt() { w.views[0].flows.heap[0].time = C.int64_t(w.Now() - 1) }

// CorruptPath is a process that writes a hop that the fabric does not have to a flow's path.
func CorruptPath(x *Flow) { x.flow.path.hop[0] = 1 << 20 }

// IsCorrupt reports whether a flow is broken because its memory is corrupt.
func (w *World) IsCorrupt(x *Flow) bool { return x.flow.broken == C.DDLEMU_CORRUPT }

// IsBroken reports whether a flow is broken because a rank died in its steps.
func (w *World) IsBroken(x *Flow) bool { return x.flow.broken == C.DDLEMU_INTERRUPTED }

// Read is how many messages of a flow the model has read.
func (w *World) Read(x *Flow) int { return int(x.flow.known) }

// Reset is what the first rank of the next job does.
func (w *World) Reset(now int64) {
	clock.Reset(unsafe.Pointer(w.views[0].clock), unsafe.Pointer(w.views[0].flows), now)
}

// Join is a new rank on a node.
func (w *World) Join(node int) { C.ddlemu_participant_join(&w.views[node], C.uint32_t(node)) }

// Die is the end of the rank on a node, which has the token if holding says so.
func (w *World) Die(node int, holding bool) {
	if holding {
		w.views[0].clock.token = C.uint32_t(node + 1)
	}
	clock.Died(unsafe.Pointer(w.views[0].clock), node)
}

// Status is what the clock does.
func (w *World) Status() clock.Status { return clock.StatusOf(unsafe.Pointer(w.views[0].clock)) }
