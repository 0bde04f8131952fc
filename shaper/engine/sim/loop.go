// SPDX-License-Identifier: Apache-2.0

// Package sim is the event loop: it makes the steps of flows in the order of their times, and says which ends have
// something to see. The loop is in C (sim.h has its rules). The virtual clock runs it on the flows of a fabric, a
// [Loop] on the flows of a [link.Network].
package sim

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo nocallback ddlemu_sim_run
#cgo noescape ddlemu_sim_run
#cgo nocallback ddlemu_sim_step
#cgo noescape ddlemu_sim_step
#cgo nocallback ddlemu_sim_add
#cgo noescape ddlemu_sim_add
#cgo nocallback ddlemu_sim_posted
#cgo noescape ddlemu_sim_posted
#cgo nocallback ddlemu_sim_take_timer
#cgo noescape ddlemu_sim_take_timer
#cgo nocallback ddlemu_sim_first_channel
#cgo noescape ddlemu_sim_first_channel
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
	// what they have posted is read round-robin. Else it is the order of a real clock: an end acts when it sees something,
	// whatever else happens at that instant, and its flow reads all that it posts, with [Loop.Step].
	RoundRobin bool
	// Drawn says that the choice points of sim.h are drawn from Seed: the order of flows with steps at the same
	// instant for each instant, the order of those that have posted for each round, and the order of the channels of
	// each kernel, so that none always comes first. Else their own order decides.
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
	pause   uint64 // steps from one pause to the next
	changes []Change
	timers  []func() // by the index of their entries
	free    []int    // places in timers
	made    uint64   // timers
	room    int      // places of the queue
}

// stepsPerPause is the number of steps from one pause to the next: some ms.
const stepsPerPause = 1 << 14

// Stop is why [Loop.Run] has returned.
type Stop int

// The reasons.
const (
	Seen    Stop = iota // an end has something to see, or timers are due: see [Loop.RunTimers]
	Reached             // nothing is left up to the given time
	Paused              // many steps were made since the last pause: the caller gives up, or calls again
)

// Change is a planned change of the parameters of a hop at a time in ns.
type Change struct {
	Time   int64
	Hop    int
	Params link.Params
}

// New makes a loop of the flows at these ends, at time 0. Endpoints without a flow are left out. A round has the flows
// in this order. The changes of hops are in the order of their times.
func New(net *link.Network, ends []*Endpoints, order []uint64, changes []Change, r Rules) *Loop {
	n := len(ends)
	l := &Loop{net: net, pause: stepsPerPause, changes: changes}
	l.c = &array[C.struct_ddlemu_sim_private](net, 1)[0]
	l.flows = array[C.struct_ddlemu_sim_flow](net, n)
	engines := array[*C.struct_ddlemu_engine](net, n)
	l.c.engines = unsafe.SliceData(engines)
	l.c.batch = unsafe.SliceData(array[C.uint32_t](net, n))
	s := &l.c.sim
	s.flows = unsafe.SliceData(l.flows)
	s.stops_at_each, s.draws_ties = C.bool(!r.RoundRobin), C.bool(r.Drawn)
	s.seed, s.channels_seed = C.uint64_t(r.Seed), C.uint64_t(r.Seed)
	C.ddlemu_sim_private_init(l.c)
	l.makeRoom(n + len(changes) + 1)
	l.setPause()
	for i, e := range ends {
		if e.Flow == nil {
			continue
		}
		e.loop, e.number = l, i
		l.flows[i].order = C.uint64_t(order[i])
		engines[i] = (*C.struct_ddlemu_engine)(e.Flow.Engine(r.RoundRobin))
	}
	for i, c := range changes {
		l.add(c.Time, C.DDLEMU_SIM_CHANGE, uint64(i), 0, i)
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

// makeRoom makes the queue as large as it must be for n entries.
func (l *Loop) makeRoom(n int) {
	if n <= l.room {
		return
	}
	l.room = max(n, 2*l.room)
	queue := array[C.struct_ddlemu_sim_entry](l.net, l.room)
	copy(queue, l.queue())
	l.c.sim.heap = unsafe.SliceData(queue)
}

// queue is the entries; the first one comes first.
func (l *Loop) queue() []C.struct_ddlemu_sim_entry { return unsafe.Slice(l.c.sim.heap, l.c.heap_size) }

func (l *Loop) add(t int64, class C.uint32_t, tie, number uint64, index int) {
	C.ddlemu_sim_add(&l.c.sim, C.struct_ddlemu_sim_entry{time: C.int64_t(t), class: class, tie: C.uint64_t(tie),
		number: C.uint64_t(number), index: C.uint32_t(index)})
}

// After makes [Loop.RunTimers] call then at time t, now at the earliest. Of several timers at one time, those with a
// smaller tie come first, then timers that were made first.
func (l *Loop) After(t int64, tie uint64, then func()) {
	i := len(l.timers)
	if n := len(l.free); n > 0 {
		i, l.free = l.free[n-1], l.free[:n-1]
		l.timers[i] = then
	} else {
		l.timers = append(l.timers, then)
		l.makeRoom(len(l.flows) + len(l.changes) + len(l.timers))
	}
	class := C.uint32_t(C.DDLEMU_SIM_TIMER)
	if l.c.sim.stops_at_each {
		class = C.DDLEMU_SIM_EARLY_TIMER
	}
	l.made++
	l.add(max(t, l.Now()), class, tie, l.made, i)
}

// RunTimers calls all timers due now, and timers that these calls make due.
func (l *Loop) RunTimers() {
	for {
		i := C.ddlemu_sim_take_timer(&l.c.sim)
		if i == C.DDLEMU_SIM_NONE {
			return
		}
		then := l.timers[i]
		l.timers[i], l.free = nil, append(l.free, int(i))
		then()
	}
}

// FirstChannel is which of n channels begins first in a rank's kernel, numbered from 0. The others follow in turn.
func (l *Loop) FirstChannel(rank, kernel, n int) int {
	return int(C.ddlemu_sim_first_channel(&l.c.sim, C.uint32_t(rank), C.uint64_t(kernel), C.uint32_t(n)))
}

// HasNow says whether the loop has something to take at this instant, but for posts.
func (l *Loop) HasNow() bool {
	q := l.queue()
	return len(q) > 0 && int64(q[0].time) <= l.Now() && q[0].class != C.DDLEMU_SIM_POST
}

// NextOf is the time of a flow's next step, [link.Never] if it has none.
func (l *Loop) NextOf(i int) int64 {
	place := l.flows[i].place
	if place == 0 {
		return link.Never
	}
	return int64(l.queue()[place-1].time)
}

// HasPosts says whether something was posted that is not read.
func (l *Loop) HasPosts() bool { return l.c.sim.posts > 0 }

// post notes that a flow has something to read.
func (l *Loop) post(i int) {
	if l.flows[i].posted == 0 && !bool(l.c.sim.stops_at_each) {
		C.ddlemu_sim_posted(&l.c.sim, C.uint32_t(i))
	}
}

// Run takes entries up to the first instant at which an end has something to see or a timer is due, at most up to a
// time. It returns the flows with such ends: round-robin all of the instant, else one. Only if it stops because an end
// has something to see, there are any. Now is the time of the last entry. The result is valid until the next call of
// Run or Step.
func (l *Loop) Run(until int64) ([]uint32, Stop) {
	if l.c.sim.steps >= l.c.sim.pause_at {
		l.setPause()
		return nil, Paused
	}
	l.begin()
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
		case C.DDLEMU_SIM_CHANGED:
			c := &l.changes[l.c.sim.changed]
			l.net.Change(c.Hop, c.Params, l.Now())
		case C.DDLEMU_SIM_BACKWARD:
			panic(fmt.Sprintf("time would run backward from %d to %d ns", l.Now(), l.queue()[0].time))
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

// batch is the flows with an end that has something to see.
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
