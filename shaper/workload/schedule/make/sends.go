// SPDX-License-Identifier: Apache-2.0

package make

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Send is the transfer of what a rank has at an address to another rank.
type Send struct {
	Address, Src, Dst int
	Effect            Effect
}

// Effect is what the receiver of a send does with it.
type Effect uint8

// The effects. Infer adds if the receiver has nothing of what the sender has, stores if the sender has all that the
// receiver has, and leaves the send out if the receiver has all that the sender has.
const (
	Infer Effect = iota
	Store
	Add
)

// Transfers are a collective as sends of addresses. An address is a place of the whole job: values that are added up,
// or moved, at one address stay there.
type Transfers struct {
	Coll schedule.Collective
	// Inputs and Outputs are the addresses of each rank's buffers, in order of the chunks.
	Inputs, Outputs [][]int
	// Adds says that the inputs of an address are added up. Otherwise they are equal.
	Adds bool
	// Steps are executed one after the other: each send of a step sends what was there before the step.
	Steps [][]Send
}

// FromSends makes a schedule of transfers. Each rank has a block for each other that it sends to, and one for each
// that it receives from. An error says that the transfers do not make the collective.
func FromSends(name string, t *Transfers) (*schedule.Schedule, error) {
	if n := len(t.Inputs); n < 2 || n > MaxGPUs || len(t.Outputs) != n {
		return nil, fmt.Errorf("%d GPUs with an input, %d with an output: must be 2 to %d", n, len(t.Outputs), MaxGPUs)
	}
	s := &schedule.Schedule{Name: fmt.Sprintf("%s_%s", t.Coll, name), Coll: t.Coll, Proto: schedule.Simple,
		OutOfPlace: true, GPUs: make([]schedule.GPU, len(t.Inputs))}
	for r := range s.GPUs {
		in, out := len(t.Inputs[r]), len(t.Outputs[r])
		s.GPUs[r].Chunks = [schedule.Buffers]int{in, out, 0}
		switch t.Coll {
		case schedule.Gather:
			s.LoopChunks = max(s.LoopChunks, in)
		case schedule.Scatter:
			s.LoopChunks = max(s.LoopChunks, out)
		default:
			s.LoopChunks = max(s.LoopChunks, in, out)
		}
	}
	b := &sendBuilder{builder: &builder{s: s}, t: t, places: map[[2]int]*place{}, blocks: map[[3]int]int{}}
	if err := b.buffers(); err != nil {
		return nil, err
	}
	for i, sends := range t.Steps {
		if err := b.step(sends); err != nil {
			return nil, fmt.Errorf("step %d: %w", i, err)
		}
	}
	return s, b.finish()
}

// sendBuilder follows the chunks at each address.
type sendBuilder struct {
	*builder
	t      *Transfers
	places map[[2]int]*place // by rank and address
	blocks map[[3]int]int    // by rank, peer and direction
}

// place is what a rank has at an address.
type place struct {
	now     schedule.Ref // where it is, if has is not empty
	has     parts
	output  int // chunk of the output to which the address belongs, or None
	writer  done
	readers []done // since it was written
}

// done is a step of a block of the rank.
type done struct{ block, step int }

// nothing is the writer of an input.
var nothing = done{schedule.None, 0}

// parts are the ranks whose inputs are in a value. If inputs are equal, rank 0 stands for all.
type parts [MaxGPUs / 64]uint64

func partOf(rank int) (p parts) {
	p[rank/64] = 1 << (rank % 64)
	return p
}

func (p parts) with(q parts) parts {
	for i := range p {
		p[i] |= q[i]
	}
	return p
}

func (p parts) meets(q parts) bool {
	for i := range p {
		if p[i]&q[i] != 0 {
			return true
		}
	}
	return false
}

// at is the place of an address on a rank.
func (b *sendBuilder) at(rank, address int) *place {
	key := [2]int{rank, address}
	p := b.places[key]
	if p == nil {
		p = &place{writer: nothing, output: schedule.None}
		b.places[key] = p
	}
	return p
}

// target is where a rank receives an address: in the output if it belongs there, else in scratch, so that the input is
// not changed.
func (b *sendBuilder) target(rank int, p *place) schedule.Ref {
	if p.output >= 0 {
		return schedule.Ref{Buffer: schedule.Output, Offset: p.output}
	}
	if p.has != (parts{}) && p.now.Buffer == schedule.Scratch {
		return p.now
	}
	scratch := &b.s.GPUs[rank].Chunks[schedule.Scratch]
	*scratch++
	return schedule.Ref{Buffer: schedule.Scratch, Offset: *scratch - 1}
}

// move is a send, or several of consecutive chunks.
type move struct {
	src, dst           int
	from, to, with     schedule.Ref // with: what it is added to
	adds               bool
	count              int
	sources, receivers []*place
}

// step adds the steps of the sends of a step.
func (b *sendBuilder) step(sends []Send) error {
	before := make([]place, len(sends)) // at the senders
	for i, s := range sends {
		n := len(b.s.GPUs)
		if s.Src < 0 || s.Src >= n || s.Dst < 0 || s.Dst >= n || s.Src == s.Dst {
			return fmt.Errorf("from rank %d to rank %d: there are %d ranks, and the two must differ", s.Src, s.Dst, n)
		}
		before[i] = *b.at(s.Src, s.Address)
	}
	var moves []*move
	for i := range sends {
		m, err := b.move(&sends[i], &before[i])
		if err != nil {
			return err
		}
		if m != nil && (len(moves) == 0 || !moves[len(moves)-1].extend(m)) {
			moves = append(moves, m)
		}
	}
	for _, m := range moves {
		b.emitSend(m)
	}
	for _, m := range moves {
		b.emitReceive(m)
	}
	return nil
}

// move decides what the receiver of a send does. It is nil if there is nothing new in the send.
func (b *sendBuilder) move(s *Send, before *place) (*move, error) {
	if before.has == (parts{}) {
		return nil, fmt.Errorf("rank %d sends address %d before it has it", s.Src, s.Address)
	}
	p := b.at(s.Dst, s.Address)
	m := &move{src: s.Src, dst: s.Dst, from: before.now, with: p.now, count: 1,
		sources: []*place{b.at(s.Src, s.Address)}, receivers: []*place{p}}
	all := p.has.with(before.has)
	switch {
	case s.Effect == Infer && all == p.has:
		return nil, nil
	case s.Effect == Add || s.Effect == Infer && all != before.has:
		m.adds = true
		if p.has.meets(before.has) || p.has == (parts{}) {
			return nil, fmt.Errorf(
				"rank %d sends address %d to rank %d to be added up, which has a part of it already, or nothing "+
					"to add it to", s.Src, s.Address, s.Dst)
		}
		p.has = all
	default:
		p.has = before.has
	}
	m.to = b.target(s.Dst, p)
	p.now = m.to
	return m, nil
}

// extend makes one move of two, if the second is of the chunks behind the chunks of the first.
func (m *move) extend(n *move) bool {
	behind := func(a, b schedule.Ref) bool { return a.Buffer == b.Buffer && a.Offset+m.count == b.Offset }
	if m.src != n.src || m.dst != n.dst || m.adds != n.adds || !behind(m.from, n.from) || !behind(m.to, n.to) ||
		m.adds && !behind(m.with, n.with) {
		return false
	}
	m.count += n.count
	m.sources, m.receivers = append(m.sources, n.sources...), append(m.receivers, n.receivers...)
	return true
}

func (b *sendBuilder) emitSend(m *move) {
	s := step(schedule.SendStep, m.from, m.from)
	s.Count = m.count
	var waits []done
	for _, p := range m.sources {
		waits = append(waits, p.writer)
	}
	at := b.append(m.src, m.dst, 0, s, waits)
	for _, p := range m.sources {
		p.readers = append(p.readers, at)
	}
}

func (b *sendBuilder) emitReceive(m *move) {
	s := step(schedule.RecvStep, m.to, m.to)
	if m.adds {
		s = step(schedule.RecvReduceCopy, m.with, m.to)
	}
	s.Count = m.count
	var waits []done
	for _, p := range m.receivers {
		waits = append(append(waits, p.writer), p.readers...)
	}
	at := b.append(m.dst, m.src, 1, s, waits)
	for _, p := range m.receivers {
		p.writer, p.readers = at, nil
	}
}

// append adds a step to the block of a rank that sends to a peer (direction 0) or receives from it (1). It waits for
// the last of the given steps in each other block; a step can wait for one, a nop before it for a further one.
func (b *sendBuilder) append(gpu, peer, direction int, s schedule.Step, waits []done) done {
	key := [3]int{gpu, peer, direction}
	block, ok := b.blocks[key]
	if !ok {
		send, recv := peer, schedule.None
		if direction == 1 {
			send, recv = schedule.None, peer
		}
		block = b.builder.add(gpu, send, recv, 0)
		b.blocks[key] = block
	}
	slices.SortFunc(waits,
		func(x, y done) int { return cmp.Or(cmp.Compare(x.block, y.block), cmp.Compare(y.step, x.step)) })
	waits = slices.CompactFunc(waits, func(x, y done) bool { return x.block == y.block })
	waits = slices.DeleteFunc(waits, func(x done) bool { return x.block == block || x == nothing })
	steps := &b.s.GPUs[gpu].Blocks[block].Steps
	for i, w := range waits {
		if i < len(waits)-1 {
			*steps = append(*steps, b.after(gpu, schedule.Step{Kind: schedule.NopStep}, w.block, w.step))
		} else {
			s = b.after(gpu, s, w.block, w.step)
		}
	}
	*steps = append(*steps, s)
	return done{block, len(*steps) - 1}
}
