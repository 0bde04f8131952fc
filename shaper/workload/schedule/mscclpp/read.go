// SPDX-License-Identifier: Apache-2.0

package mscclpp

import (
	"errors"
	"fmt"
	"iter"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

var errTooLarge = fmt.Errorf(
	"the plan is too large: more than %d operations, or too many signals and packets between them", msccl.MaxSteps)

// Read reads an execution plan. If all channels are ports, and each has one thread block that sends and one that waits,
// it becomes messages that the receiver stores. Other plans have stores into the memories of other GPUs.
//
// An error says what does not belong in a plan, or is not supported. What cannot end, such as a wait for a signal that
// nobody sends, is a mistake of the schedule.
func Read(data []byte) (*schedule.Schedule, error) {
	p, err := parse(data)
	if err != nil {
		return nil, err
	}
	if p.onlyPorts() {
		if s, err := p.readPorts(); !errors.Is(err, errNoOrder) {
			return s, err
		}
	}
	return p.read()
}

// read reads a plan with stores. How many iterations a pipeline has depends on the size of the call: the schedule has a
// few for each chunk, and its function Sized makes it for a size.
func (p *plan) read() (*schedule.Schedule, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s, err := p.schedule(0)
	if err != nil {
		return nil, err
	}
	limit := p.scratchLimit()
	s.Sized = func(bytes uint64) (*schedule.Schedule, error) {
		one := max(bytes/uint64(p.chunks()), 1)
		if limit > 0 && one > limit {
			return nil, fmt.Errorf(
				"%d bytes: a chunk has more than the %d bytes of its scratch: with reuse_resources MSCCL++ uses "+
					"the scratch again for the next part, which is not supported", bytes, limit)
		}
		return p.schedule(one)
	}
	return s, nil
}

// schedule makes the schedule for chunks of about so many bytes; 0: not known.
func (p *plan) schedule(bytes uint64) (*schedule.Schedule, error) {
	r, err := newReader(p, bytes)
	if err != nil {
		return nil, err
	}
	if most := max(p.chunks(), p.scratch()); most*r.parts > msccl.MaxChunks {
		return nil, fmt.Errorf("%d chunks of %d parts: at most %d are supported", most, r.parts, msccl.MaxChunks)
	}
	s := p.empty(r)
	if _, err := s.Shape(); err != nil {
		return nil, err
	}
	m := newMachine(p, s, r)
	for i := range p.GPUs {
		for b := range p.GPUs[i].Blocks {
			ops, err := r.operations(i, b)
			if err != nil {
				return nil, err
			}
			if m.ops += len(ops); m.ops > msccl.MaxSteps {
				return nil, errTooLarge
			}
			m.addBlock(i, b, ops)
		}
	}
	if err := m.run(); err != nil {
		return nil, err
	}
	operations := 0
	for range p.operations() {
		operations++
	}
	s.Summary = fmt.Sprintf("plan of MSCCL++, %d chunks, %d thread blocks, %d operations", p.chunks(), len(m.blocks),
		operations)
	return s, nil
}

// empty is the schedule without blocks.
func (p *plan) empty(r *reader) *schedule.Schedule {
	s := &schedule.Schedule{
		Name: p.Name, Proto: schedule.Simple, InPlace: p.InPlace, OutOfPlace: !p.InPlace, Whole: true, Parts: r.parts,
		Align:    r.align(),
		MinBytes: messageSize(p.Min), MaxBytes: messageSize(p.Max), LoopChunks: p.chunks() * r.parts,
		Warnings: p.limits(),
	}
	if p.Protocol == "LL" {
		s.Proto = schedule.LL
	}
	p.setCollective(s)
	if text := p.switchOperations(); text != "" {
		s.CheckOnly = "switch channels (" + text +
			"): the switch adds and copies, which links do not: such a plan is only checked"
	}
	s.GPUs = make([]schedule.GPU, len(p.GPUs))
	for i := range p.GPUs {
		g := &p.GPUs[i]
		s.GPUs[i].Chunks = [schedule.Buffers]int{g.Input * r.parts, g.Output * r.parts, g.Scratch * r.parts}
	}
	return s
}

// operations are the operations in the file, those of pipelines behind these.
func (p *plan) operations() iter.Seq[*op] {
	return func(yield func(*op) bool) {
		for _, g := range p.GPUs {
			for _, b := range g.Blocks {
				for k := range b.Ops {
					for _, all := range [][]op{b.Ops[k : k+1], b.Ops[k].Ops} {
						for n := range all {
							if !yield(&all[n]) {
								return
							}
						}
					}
				}
			}
		}
	}
}

var errBothScratch = errors.New(
	"scratch is used for packets and for plain data too: a packet is twice as large, so which of them overlap is not " +
		"followed")
