// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// slot is the step buffer of message n, as elements.
func slot(buffer unsafe.Pointer, n, slots, bytes, payload uint64) []int32 {
	return unsafe.Slice((*int32)(unsafe.Add(buffer, n%slots*bytes)), payload/4)
}

// act moves the bytes of an action: from a step buffer or the memory, with a sum or not, to the memory, a step buffer
// or both. It tells the connections that a message was taken and one was written.
func (s *stage) act(i int, a *schedule.Action) {
	if !a.Step.Moves() {
		return
	}
	b := &s.steps.Blocks[i]
	n := a.Payload / 4
	memory := s.memory[b.GPU]
	var from, add, to, on []int32
	if a.Step.Kind.ReadsSource() {
		from = memory[a.Src/4:][:n]
	}
	if a.Step.Kind == schedule.ReduceStep {
		add = memory[a.Dst/4:][:n]
	}
	if a.Step.Receives() {
		x := &s.links[s.link[b.In]]
		received := slot(unsafe.Pointer(x.in), uint64(x.consumed), uint64(x.slots), uint64(x.slot_bytes), a.Payload)
		if from != nil {
			add = received
		} else {
			from = received
		}
		x.consumed++
	}
	if a.Step.Kind.WritesTarget() {
		to = memory[a.Dst/4:][:n]
	}
	if a.Step.Sends() {
		x := &s.links[s.link[b.Out]]
		on = slot(unsafe.Pointer(x.out), uint64(x.written), uint64(x.slots), uint64(x.slot_bytes), a.Payload)
		if to == nil {
			to, on = on, nil
		}
		setSize(x, a.Wire)
		x.written++
	}
	put(to, from, add)
	copy(on, to)
}

// put stores from, or the sum of from and add.
func put(to, from, add []int32) {
	if add == nil {
		copy(to, from)
		return
	}
	from, add = from[:len(to)], add[:len(to)]
	for i := range to {
		to[i] = from[i] + add[i]
	}
}
