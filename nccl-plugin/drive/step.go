// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// act does the next action of a block, if it need not wait.
func (s *stage) act(b *player) bool {
	var a schedule.Action
	b.program.Current(&a)
	if a.Waits && a.Step.DepBlock >= 0 && !s.blocks[s.first[b.gpu]+a.Step.DepBlock].flag.Reached(a.Loop, a.Step.DepStep) {
		return false
	}
	if a.Receives() && !s.hasMessage(b.in) || a.Sends() && !s.hasSlot(b.out) {
		return false
	}
	s.move(b, &a)
	b.program.Next()
	if a.Ends && a.Step.HasDep && a.Step.Kind != schedule.NopStep {
		b.flag = schedule.Flag{Loop: a.Loop, Step: a.Number}
	}
	return true
}

func (s *stage) hasMessage(i int) bool {
	x := &s.links[i]
	if i >= s.network {
		return x.written > x.consumed
	}
	return x.arrived > x.consumed
}

func (s *stage) hasSlot(i int) bool {
	x := &s.links[i]
	if i >= s.network {
		return x.written < x.consumed+x.slots
	}
	return x.written < x.acked+x.slots
}

// slot is the step buffer of message n, as elements.
func slot(buffer unsafe.Pointer, n, slots, bytes, payload uint64) []int32 {
	return unsafe.Slice((*int32)(unsafe.Add(buffer, n%slots*bytes)), payload/4)
}

// move moves the bytes of an action: from a step buffer or the memory, with a sum or not, to the memory, a step buffer
// or both.
func (s *stage) move(b *player, a *schedule.Action) {
	if a.Step.Count == 0 || a.Step.Kind == schedule.NopStep {
		return
	}
	n := a.Payload / 4
	memory := s.memory[b.gpu]
	var from, add, to, on []int32
	if a.Step.Kind.ReadsSource() {
		from = memory[a.Src/4:][:n]
	}
	if a.Step.Kind == schedule.ReduceStep {
		add = memory[a.Dst/4:][:n]
	}
	if a.Receives() {
		x := &s.links[b.in]
		received := slot(unsafe.Pointer(x.in), uint64(x.consumed), uint64(x.slots), uint64(x.slot_bytes), a.Payload)
		if from != nil {
			add = received
		} else {
			from = received
		}
	}
	if a.Step.Kind.WritesTarget() {
		to = memory[a.Dst/4:][:n]
	}
	if a.Sends() {
		x := &s.links[b.out]
		on = slot(unsafe.Pointer(x.out), uint64(x.written), uint64(x.slots), uint64(x.slot_bytes), a.Payload)
		if to == nil {
			to, on = on, nil
		}
	}
	put(to, from, add)
	copy(on, to)
	s.count(b, a)
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

// count tells the connections that a message was taken and one was written.
func (s *stage) count(b *player, a *schedule.Action) {
	if a.Receives() {
		s.links[b.in].consumed++
	}
	if a.Sends() {
		x := &s.links[b.out]
		setSize(x, a.Wire)
		x.written++
	}
}
