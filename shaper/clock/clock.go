// SPDX-License-Identifier: Apache-2.0

// Package clock is the virtual clock of a fabric: time that stands still while any rank
// works, and jumps to the next event of the link model when all of them wait. Go makes its
// memory; C does the rest (clock.h).
package clock

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
#include "clock.h"
*/
import "C"

import (
	"unsafe"

	_ "github.com/ddlemu/ddlemu/shaper/link" // the engine
)

// MaxFlows is the most connections that a fabric with a virtual clock can have at a time.
const MaxFlows = C.DDLEMU_CLOCK_FLOWS

// Size is the bytes of the clock of a fabric with so many nodes and places for participants.
func Size(nodes, participants int) uint64 {
	return uint64(C.ddlemu_clock_size(C.uint32_t(nodes), C.uint32_t(participants)))
}

// FlowsSize is the bytes of the file of a fabric's flows. Most of them are never touched.
func FlowsSize() uint64 { return uint64(C.ddlemu_clock_flows_size()) }

// FlowsHead is the bytes before the first flow in that file, FlowSize those of one flow.
func FlowsHead() uint64 { return uint64(C.ddlemu_clock_flow_offset(0)) }

// FlowSize is the bytes of one flow in the file.
func FlowSize() uint64 { return uint64(C.sizeof_struct_ddlemu_clock_flow) }

// Init makes a clock in memory of zeros.
func Init(memory unsafe.Pointer, nodes, participants int) {
	C.ddlemu_clock_init(memory, C.uint32_t(nodes), C.uint32_t(participants))
}

// InitFlows makes a table of flows without flows in memory of zeros.
func InitFlows(memory unsafe.Pointer, fabricID uint64) {
	C.ddlemu_clock_flows_init(memory, C.uint64_t(fabricID))
}

// Now is the virtual time of a clock in ns.
func Now(memory unsafe.Pointer) int64 {
	return int64(C.clock_read((*C.struct_ddlemu_clock)(memory)))
}

// Leave says that a participant takes part no longer: it left, or died.
func Leave(memory unsafe.Pointer, participant int) {
	C.ddlemu_party_leave(memory, C.uint32_t(participant))
}
