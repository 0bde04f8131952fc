// SPDX-License-Identifier: Apache-2.0

package link

// #include "arith.h"
// #include "congestion.h"
// #include "cubic.h"
import "C"

import "reflect"

// What tests need of C: a test file cannot use cgo.

// layouts are the structs that Go and C have in common.
func layouts() [][2]reflect.Type {
	return [][2]reflect.Type{
		{reflect.TypeFor[Params](), reflect.TypeFor[C.struct_ddlemu_params]()},
		{reflect.TypeFor[Hop](), reflect.TypeFor[C.struct_ddlemu_hop]()},
		{reflect.TypeFor[Transport](), reflect.TypeFor[C.struct_ddlemu_transport]()},
		{reflect.TypeFor[Block](), reflect.TypeFor[C.struct_ddlemu_block]()},
		{reflect.TypeFor[HopRecord](), reflect.TypeFor[C.struct_ddlemu_hop_record]()},
	}
}

// Streams of draws.
const (
	streamOfJitter = C.DRAW_JITTER
	streamOfLoss   = C.DRAW_LOSS
	streamOfState  = C.DRAW_STATE
)

// drawInC is Draw as the engine and the eBPF programs have it.
func drawInC(seed uint64, hop, kind uint32, flow, counter uint64) uint64 {
	return uint64(C.draw(C.uint64_t(seed), C.uint32_t(hop), C.uint32_t(kind), C.uint64_t(flow), C.uint64_t(counter)))
}

func cubeRoot(x uint64) uint64 { return uint64(C.cube_root(C.uint64_t(x))) }

func cubicK(wMax, cwnd, packet uint64) int64 {
	return int64(C.cubic_k(C.uint64_t(wMax), C.uint64_t(cwnd), C.uint64_t(packet)))
}

func cubicWindow(wMax uint64, t int64, packet uint64) uint64 {
	return uint64(C.w_cubic(C.uint64_t(wMax), C.int64_t(t), C.uint64_t(packet)))
}

// setWindow sets the congestion window, in bytes, at the end of slow start.
func (f *Flow) setWindow(bytes uint64) {
	f.flow.window.cwnd, f.flow.window.ssthresh = C.uint64_t(bytes<<10), C.uint64_t(bytes<<10)
}

// loseTwice makes the newest segment one that was lost, and lost again when it was sent
// again.
func (f *Flow) loseTwice() *C.struct_ddlemu_segment {
	s := &f.flow.kept[(f.flow.at[0]-1)%MaxSegments]
	s.flags |= C.SEGMENT_LOST | C.SEGMENT_TIMEOUT
	return s
}
