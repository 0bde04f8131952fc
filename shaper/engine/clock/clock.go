// SPDX-License-Identifier: Apache-2.0

// Package clock is the virtual clock of a fabric: time that stands still while any rank
// works, and jumps to the next event of the link model when all of them wait. Go makes its
// memory; C does the rest (clock.h).
package clock

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#cgo LDFLAGS: -lm
#include "clock.h"
*/
import "C"

import (
	"unsafe"

	_ "github.com/ddlemu/ddlemu/shaper/engine/sim" // the event loop
)

// MaxFlows is the most connections that a fabric with a virtual clock can have at a time.
const MaxFlows = C.DDLEMU_CLOCK_FLOWS

// What a node does that takes time, and how many kinds of that there are.
const (
	Launches     = C.DDLEMU_LAUNCHES      // calls of the host's thread, and channels of kernels until they begin
	Actions      = C.DDLEMU_ACTIONS       // of kernels
	NodeMessages = C.DDLEMU_NODE_MESSAGES // between the GPUs of a node
	NodeParts    = C.DDLEMU_NODE_PARTS
)

// Size is the bytes of the clock of a fabric with so many nodes and places for participants.
func Size(nodes, participants int) uint64 {
	return uint64(C.ddlemu_clock_size(C.uint32_t(nodes), C.uint32_t(participants)))
}

// FlowsHead is the bytes of the file of a fabric's flows before the first flow, FlowSize those
// of one flow.
const (
	FlowsHead = C.sizeof_struct_ddlemu_clock_flows
	FlowSize  = C.sizeof_struct_ddlemu_clock_flow
)

// FlowsSize is the bytes of that file. Most of them are never touched.
const FlowsSize = FlowsHead + MaxFlows*FlowSize

// Init makes a clock in memory of zeros.
func Init(memory unsafe.Pointer, nodes, participants int) {
	C.ddlemu_clock_init(memory, C.uint32_t(nodes), C.uint32_t(participants))
}

// Reset removes what participants that died have left in a clock and its flows, and sets the
// time to now (ns) unless it is later. Only while nobody takes part. memory is nil if the clock is real.
func Reset(memory, flows unsafe.Pointer, now int64) {
	C.ddlemu_clock_reset(memory, flows, C.int64_t(now))
}

// PlannedMade counts the planned changes of links that have been made.
func PlannedMade(memory unsafe.Pointer) int {
	return int(C.planned_made((*C.struct_ddlemu_clock)(memory)))
}

// Now is the virtual time of a clock in ns.
func Now(memory unsafe.Pointer) int64 {
	return int64(C.clock_read((*C.struct_ddlemu_clock)(memory)))
}

// Left says that a participant has left: the clock does not wait for it any more.
func Left(memory unsafe.Pointer, participant int) {
	C.ddlemu_participant_left(memory, C.uint32_t(participant))
}

// Died says that a participant's process has died. If it ran the clock at that moment, the
// connection whose steps it was making fails.
func Died(memory unsafe.Pointer, participant int) {
	C.ddlemu_participant_died(memory, C.uint32_t(participant))
}
