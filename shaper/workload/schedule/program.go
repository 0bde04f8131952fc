// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

const (
	// wholeBytes is the largest message of schedules with Whole. Stores of a GPU have no buffer that limits how much is
	// in flight: with plan.MaxRequests, 4 MiB are.
	wholeBytes = 128 << 10
	// signalBytes are the bytes of a message without data: MSCCL++'s semaphores have 8 bytes.
	signalBytes = 8
)

// Cut is how a call of a given size is divided.
type Cut struct {
	Proto  Protocol
	Elem   uint64 // bytes of an element
	Bytes  uint64 // of the larger buffer
	Chunk  uint64 // bytes of a chunk
	Piece  uint64 // bytes of a chunk in one loop, at most
	Loops  int    // until a chunk is done
	Group  int    // chunks that one operation moves at once
	Slices int    // messages of an operation
	Slots  int    // messages in flight on a connection
	least  uint64 // bytes of a slice, at least
}

// MaxBytes is the largest size of a call.
const MaxBytes = 1 << 44

// Cut divides a call of about size bytes of the larger buffer, in elements of elem bytes. The size is rounded down so
// that every chunk has the same number of elements, as MSCCL demands. An error says that it is too small or too large.
func (s *Schedule) Cut(size, elem uint64) (Cut, error) {
	sh, err := s.Shape()
	if err != nil {
		return Cut{}, err
	}
	c := Cut{Proto: s.Proto, Elem: elem}
	c.Slices, c.Slots = s.Proto.Buffer()
	least := max(elem, s.Align)
	unit := uint64(sh.Larger) * least
	if size < unit {
		return Cut{}, fmt.Errorf("%d bytes are too few for %d chunks of at least %d bytes: give %d or more", size,
			sh.Larger, least, unit)
	}
	if size > MaxBytes {
		return Cut{}, fmt.Errorf("%d bytes: must be at most %d", size, uint64(MaxBytes))
	}
	c.Chunk = size / unit * least
	c.Bytes = c.Chunk * uint64(sh.Larger)
	if s.Whole {
		c.cutWhole(s)
		return c, nil
	}
	switch s.Proto {
	case LL:
		c.Piece = plan.DefaultLLBuffSize / plan.Steps / 2
	case LL128:
		c.Piece = plan.DefaultLL128BuffSize / plan.Steps / plan.LL128Slice * plan.LL128Payload
	default:
		c.Piece = plan.DefaultBuffSize / plan.Steps * plan.ChunkSteps
		c.least = plan.DefaultBuffSize / plan.Steps * plan.SliceSteps / 32
	}
	if s.Grain > 0 {
		c.Piece = uint64(s.Grain) * uint64(c.Slices)
		c.Slots = min(max(plan.DefaultBuffSize/int(min(s.Grain, plan.DefaultBuffSize)), c.Slots), plan.MaxRequests)
		c.least = min(c.least, uint64(s.Grain)/32/elem*elem)
	}
	c.Piece = max(c.Piece/elem*elem, elem)
	c.Loops = int((c.Chunk + c.Piece - 1) / c.Piece)
	c.Group = int(max(min(c.Piece/c.Chunk, uint64(s.mostCount())), 1))
	return c, nil
}

// Buffer is how NCCL divides the buffer of a connection: into how many messages it divides an operation, and how many
// messages fit.
func (p Protocol) Buffer() (slices, slots int) {
	if p == LL || p == LL128 {
		return 1, plan.Steps
	}
	return plan.ChunkSteps / plan.SliceSteps, plan.Steps / plan.SliceSteps
}

// cutWhole divides operations that are done whole into messages.
func (c *Cut) cutWhole(s *Schedule) {
	message := uint64(wholeBytes)
	if s.Grain > 0 {
		message = uint64(s.Grain)
	}
	c.Loops, c.Piece = 1, max(c.Chunk, message)
	c.Slices, c.Slots = int((c.Chunk+message-1)/message), plan.MaxRequests
	c.Group = int(max(min(message/c.Chunk, uint64(s.mostCount())), 1))
}

// mostCount is the largest count of a step.
func (s *Schedule) mostCount() int {
	most := 0
	for g := range s.GPUs {
		for b := range s.GPUs[g].Blocks {
			for i := range s.GPUs[g].Blocks[b].Steps {
				most = max(most, s.GPUs[g].Blocks[b].Steps[i].Count)
			}
		}
	}
	return most
}

// Message is the payload of slice i of an operation on n bytes, and what it is on the wire. proto is the step's.
func (c *Cut) Message(proto Protocol, n uint64, i int) (payload, wire uint64) {
	payload = n
	if c.Slices > 1 {
		size := c.sliceBytes(n)
		from := min(size*uint64(i), n)
		payload = min(size, n-from)
	}
	if proto == "" {
		proto = c.Proto
	}
	switch proto {
	case LL:
		return payload, (payload + plan.LLData - 1) / plan.LLData * plan.LLLine
	case LL128:
		return payload, (payload + plan.LL128Payload - 1) / plan.LL128Payload * plan.LL128Slice
	}
	return payload, payload
}

// sliceBytes is the size of all slices but the last: half of the operation in units of 16 elements.
func (c *Cut) sliceBytes(n uint64) uint64 {
	elems, per := n/c.Elem, uint64(c.Slices)
	return max((elems+16*per-1)/(16*per)*16*c.Elem, c.least)
}

// Largest is the most bytes on the wire of a message that a block sends, 0 if it sends none.
func (c *Cut) Largest(b *Block) (wire uint64) {
	c.EachMessage(b, func(_, w, _ uint64) { wire = max(wire, w) })
	return wire
}

// Action is one message's share of a step: wait, receive, add, store, send.
type Action struct {
	Step    *Step
	Number  int // of the step in its block
	Loop    int
	Payload uint64
	Wire    uint64
	Src     uint64 // offset in the GPU's memory in bytes, if the step reads its source
	Dst     uint64 // the same for the destination
	Waits   bool   // before this action the block waits for the step's dependency
	Ends    bool   // with this action the step of this loop is done
}

// Program is what one block does in a call. It is not safe for concurrent use.
type Program struct {
	cut    *Cut
	layout *Layout
	steps  []Step

	loop, step, from, slice int // from: chunks of the step that are done
	fresh                   bool
}

// NewProgram is the program of block b of a GPU whose memory is l. Every step's chunks must be in the buffers: see
// [Layout.At].
func NewProgram(b *Block, c *Cut, l *Layout) *Program {
	return &Program{cut: c, layout: l, steps: b.Steps, fresh: true}
}

// Reset starts the program from the beginning.
func (p *Program) Reset() { p.loop, p.step, p.from, p.slice, p.fresh = 0, 0, 0, 0, true }

// Done says whether nothing remains.
func (p *Program) Done() bool { return p.loop >= p.cut.Loops || len(p.steps) == 0 }

// Current is the next action. There must be one.
func (p *Program) Current(a *Action) {
	s := &p.steps[p.step]
	c := p.cut
	done := uint64(p.loop) * c.Piece // bytes of each chunk in the loops before
	n := min(c.Piece, c.Chunk-done)
	chunks := min(c.Group, s.Count-p.from)
	slices := p.slicesOf(s)
	*a = Action{Step: s, Number: p.step, Loop: p.loop, Waits: p.fresh}
	if s.Kind.WithoutData() {
		a.Wire, a.Ends = signalBytes, true
		return
	}
	a.Ends = s.Count == 0 || p.from+chunks >= s.Count && p.slice+1 == slices
	if chunks <= 0 || s.Kind == NopStep {
		return
	}
	total := n * uint64(chunks)
	offset := uint64(0)
	if s.Kind.Sends() || s.Kind.Receives() {
		a.Payload, a.Wire = c.Message(s.Proto, total, p.slice)
		if c.Slices > 1 {
			offset = min(c.sliceBytes(total)*uint64(p.slice), total)
		}
	} else {
		a.Payload = total
	}
	src, _ := p.layout.At(s.Src, 0)
	dst, _ := p.layout.At(s.Dst, 0)
	a.Src = uint64(max(src+p.from, 0))*c.Chunk + done + offset
	a.Dst = uint64(max(dst+p.from, 0))*c.Chunk + done + offset
}

func (p *Program) slicesOf(s *Step) int {
	if s.Kind.WithoutData() {
		return 1
	}
	if s.Kind.Sends() || s.Kind.Receives() {
		return p.cut.Slices
	}
	return 1
}

// Next goes on to the next action.
func (p *Program) Next() {
	s := &p.steps[p.step]
	p.fresh = false
	if s.Moves() {
		if p.slice++; p.slice < p.slicesOf(s) {
			return
		}
		p.slice = 0
		if p.from += p.cut.Group; p.from < s.Count {
			return
		}
	}
	p.from, p.fresh = 0, true
	if p.step++; p.step == len(p.steps) {
		p.step = 0
		p.loop++
	}
}

// Flag is how far a block has said it is: the loop and the step that it has done last, among the steps with HasDep.
type Flag struct{ Loop, Step int }

// NoFlag is the flag of a block that has said nothing.
var NoFlag = Flag{-1, -1}

// Reached says whether the flag is at a step of a loop or behind it.
func (f Flag) Reached(loop, step int) bool { return f.Loop > loop || f.Loop == loop && f.Step >= step }
