// SPDX-License-Identifier: Apache-2.0

package clock

// #include "clock.h"
import "C"

import "unsafe"

// Status is the state of a virtual clock at one moment.
type Status struct {
	Now    int64  `json:"now_ns"`
	Rounds uint64 `json:"rounds"` // times that all ranks waited and the clock ran
	Steps  uint64 `json:"steps"`  // of flows
	Stuck  uint64 `json:"stuck"`  // rounds in which nothing was left to happen, although nobody waited for that
	// Repairs counts ranks that died while their process ran the clock.
	Repairs uint64 `json:"repairs"`
	// Deadlocked says that every rank waited and nothing was left to happen.
	Deadlocked bool    `json:"deadlocked"`
	Actors     []Actor `json:"actors"`
}

// Actor is a thread that can act.
type Actor struct {
	Participant int    `json:"participant"` // its place in the fabric's file
	Name        string `json:"name"`        // application, soft-stream, ...
	Thread      int    `json:"thread"`      // thread id; of the application the process id
	// Works, Polls, Waits, Sleeps, Computes or Settles; all but the first are idle
	State string `json:"state"`
}

// What an actor does.
const (
	Works    = "works"
	Polls    = "polls"    // it polls for the effects of others
	Waits    = "waits"    // it waits for a signal
	Sleeps   = "sleeps"   // it sleeps outside of ddlemu's calls
	Computes = "computes" // it waits for a virtual time (ddlemu_compute)
	Settles  = "settles"  // it waits until nothing is left to happen
)

// Start is the virtual time of a new fabric in ns.
const Start = C.DDLEMU_CLOCK_START

// StatusOf reads the clock. Its parts may be of slightly different moments.
func StatusOf(memory unsafe.Pointer) Status {
	c := (*C.struct_ddlemu_clock)(memory)
	var v C.struct_ddlemu_clock_view
	C.ddlemu_clock_place(&v, memory, nil)
	s := Status{Now: Now(memory), Rounds: uint64(c.rounds), Steps: uint64(c.steps), Stuck: uint64(c.stuck),
		Repairs: uint64(c.repairs), Deadlocked: c.deadlocked != 0, Actors: []Actor{}}
	for i, p := range unsafe.Slice(v.participants, int(c.participants)) {
		if p.on == 0 {
			continue
		}
		for k := range min(int(p.actors), len(p.actor)) {
			if a := &p.actor[k]; a.used != 0 {
				s.Actors = append(s.Actors, Actor{Participant: i, Name: C.GoString(&a.name[0]), Thread: int(a.thread),
					State: stateOf(a)})
			}
		}
	}
	return s
}

// stateOf returns the name of what an actor does.
func stateOf(a *C.struct_ddlemu_actor) string {
	switch {
	case a.state == 0:
		return Works
	case a.until != C.DDLEMU_NEVER:
		return Computes
	}
	switch a.state >> 32 & 0x7fffffff {
	case C.DDLEMU_EVENTS:
		return Polls
	case C.DDLEMU_SIGNALS:
		return Waits
	case C.DDLEMU_HANDOVERS:
		return Sleeps
	}
	return Settles
}
