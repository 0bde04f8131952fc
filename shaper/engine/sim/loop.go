// SPDX-License-Identifier: Apache-2.0

// Package sim is the event loop: it makes the steps of flows in the order of their times, and says which ends have
// something to see. The loop is in C (sim.h has its rules). The virtual clock runs it on the flows of a fabric, a
// [Loop] on those of a [link.Network].
package sim

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo nocallback ddlemu_sim_run
#cgo noescape ddlemu_sim_run
#cgo nocallback ddlemu_sim_step
#cgo noescape ddlemu_sim_step
#cgo nocallback ddlemu_sim_schedule
#cgo noescape ddlemu_sim_schedule
#include "private.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Rules say in which order things happen.
type Rules struct {
	// RoundRobin is the order of a virtual clock: all flows make their steps of an instant, then all ends act, then
	// what they have posted is read round-robin. Else it is that of a real clock: an end acts when it sees something,
	// whatever else happens at that instant, and its flow reads all that it posts, with [Loop.Step].
	RoundRobin bool
	// Drawn says that the order of flows with steps at the same instant is drawn from Seed for each instant, so that
	// no flow always comes first. Else the flows' own order decides.
	Drawn bool
	Seed  uint64
}

// Loop moves flows of a network in virtual time. It is not safe for concurrent use. The network's Close releases its
// memory.
type Loop struct {
	// Watch, if not nil, is called for each segment on each hop, if the network keeps records.
	Watch   func(*link.HopRecord)
	net     *link.Network
	records []link.HopRecord
	c       *C.struct_ddlemu_sim_private
	flows   []C.struct_ddlemu_sim_flow
	posted  []bool // of each flow: it has posts that are not read
	pause   uint64 // steps from one pause to the next
}

// stepsPerPause is the number of steps from one pause to the next: some ms.
const stepsPerPause = 1 << 14

// Stop is why [Loop.Run] has returned.
type Stop int

// The reasons.
const (
	Seen    Stop = iota // an end has something to see
	Reached             // no step is left up to the given time
	Paused              // many steps were made since the last pause: the caller gives up, or calls again
)

// New makes a loop of the flows at these ends, at time 0. Endpoints without a flow are left out. A round has the flows
// in this order.
func New(net *link.Network, ends []*Endpoints, order []uint64, r Rules) *Loop {
	n := len(ends)
	l := &Loop{net: net, posted: make([]bool, n), pause: stepsPerPause}
	l.c = &array[C.struct_ddlemu_sim_private](net, 1)[0]
	l.flows = array[C.struct_ddlemu_sim_flow](net, n)
	engines := array[*C.struct_ddlemu_engine](net, n)
	l.c.engines = unsafe.SliceData(engines)
	l.c.batch = unsafe.SliceData(array[C.uint32_t](net, n))
	s := &l.c.sim
	s.flows = unsafe.SliceData(l.flows)
	s.heap = unsafe.SliceData(array[C.struct_ddlemu_sim_next](net, n))
	s.posted = unsafe.SliceData(array[C.struct_ddlemu_sim_posted](net, n))
	s.stops_at_each, s.draws_ties, s.seed = C.bool(!r.RoundRobin), C.bool(r.Drawn), C.uint64_t(r.Seed)
	C.ddlemu_sim_private_init(l.c)
	l.setPause()
	for i, e := range ends {
		if e.Flow == nil {
			continue
		}
		e.loop, e.number = l, i
		l.flows[i].order = C.uint64_t(order[i])
		engines[i] = (*C.struct_ddlemu_engine)(e.Flow.Engine(r.RoundRobin))
	}
	return l
}

func array[T any](net *link.Network, n int) []T {
	var zero T
	return unsafe.Slice((*T)(net.Allocate(uintptr(n)*unsafe.Sizeof(zero))), n)
}

// Now is the present time in ns.
func (l *Loop) Now() int64 { return int64(l.c.sim.now) }

// Steps counts the steps of all flows.
func (l *Loop) Steps() uint64 { return uint64(l.c.sim.steps) }

// Next is the time of the first step, [link.Never] if there is none. What was posted and not read is not counted.
func (l *Loop) Next() int64 {
	if l.c.heap_size == 0 {
		return link.Never
	}
	return int64(l.c.sim.heap.time)
}

// NextOf is the time of a flow's next step, [link.Never] if it has none.
func (l *Loop) NextOf(i int) int64 {
	place := l.flows[i].place
	if place == 0 {
		return link.Never
	}
	return int64(unsafe.Slice(l.c.sim.heap, l.c.heap_size)[place-1].time)
}

// HasPosts says whether something was posted that is not read.
func (l *Loop) HasPosts() bool { return l.c.sim.posted_count > 0 }

// SetNow moves the time on, for something that is no step of a flow; until the next pause it counts as one. Time never
// runs backward, and no step may be earlier.
func (l *Loop) SetNow(t int64) {
	if t < l.Now() || t > l.Next() {
		panic(fmt.Sprintf("the time cannot go from %d to %d ns: the next step is at %d ns", l.Now(), t, l.Next()))
	}
	l.c.sim.now = C.int64_t(t)
	l.c.sim.pause_at--
}

// post notes that a flow has something to read.
func (l *Loop) post(i int) {
	if l.posted[i] || bool(l.c.sim.stops_at_each) {
		return
	}
	if l.Next() <= l.Now() {
		panic(fmt.Sprintf("something is posted at %d ns before the steps of this instant are made", l.Now()))
	}
	l.posted[i] = true
	l.c.sim.posted_count++
	flows := l.postedFlows()
	flows[len(flows)-1] = C.struct_ddlemu_sim_posted{order: l.flows[i].order, flow: C.uint32_t(i)}
}

// postedFlows are the flows with posts that are not read.
func (l *Loop) postedFlows() []C.struct_ddlemu_sim_posted {
	return unsafe.Slice(l.c.sim.posted, l.c.sim.posted_count)
}

func (l *Loop) setTimer(i int, t int64) {
	l.flows[i].timer = C.int64_t(t)
	if t < l.NextOf(i) {
		C.ddlemu_sim_schedule(&l.c.sim, C.uint32_t(i), C.int64_t(t))
	}
}

// Run reads what was posted, then makes steps up to the first instant at which an end has something to see, at most up
// to a time. It returns the flows with such ends: round-robin all of the instant, else one. Only if it stops because an
// end has something to see, there are any. Now is the time of the last step. The result is valid until the next call of
// Run or Step.
func (l *Loop) Run(until int64) ([]uint32, Stop) {
	if l.c.sim.steps >= l.c.sim.pause_at {
		l.setPause()
		return nil, Paused
	}
	l.begin()
	for _, p := range l.postedFlows() { // Run reads what was posted to them
		l.posted[p.flow] = false
	}
	for {
		stop := C.ddlemu_sim_run(&l.c.sim, C.int64_t(until))
		l.watch()
		switch stop {
		case C.DDLEMU_SIM_SEEN:
			return l.batch(), Seen
		case C.DDLEMU_SIM_REACHED:
			return nil, Reached
		case C.DDLEMU_SIM_PAUSED:
			l.setPause()
			return nil, Paused
		case C.DDLEMU_SIM_BACKWARD:
			panic(fmt.Sprintf("time would run backward from %d to %d ns", l.Now(), l.Next()))
		}
	}
}

// Step makes the steps of one flow up to now, and reads what was posted to it.
func (l *Loop) Step(i int) {
	l.begin()
	C.ddlemu_sim_step(&l.c.sim, C.uint32_t(i))
	l.watch()
	l.batch()
}

func (l *Loop) setPause() { l.c.sim.pause_at = l.c.sim.steps + C.uint64_t(l.pause) }

func (l *Loop) begin() { l.c.sim.seen, l.c.batch_count = false, 0 }

// batch is the flows of which an end has something to see.
func (l *Loop) batch() []uint32 {
	out := unsafe.Slice((*uint32)(unsafe.Pointer(l.c.batch)), l.c.batch_count)
	for _, i := range out {
		l.flows[i].happened = 0
	}
	return out
}

func (l *Loop) watch() {
	l.records = l.net.HopRecords(l.records[:0]) // also if nobody watches: the loop waits for their memory
	for k := range l.records {
		if l.Watch != nil {
			l.Watch(&l.records[k])
		}
	}
}
