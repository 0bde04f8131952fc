// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
)

// Program is what ranks do that take the same lines.
type Program struct {
	Ranks Ranks
	// Calls are the operations in the order in which the host thread takes them.
	Calls []ProgramCall
	// Streams are the names of the streams, in the order of their first operations.
	Streams []string
	// ByStream are the positions in Calls of the operations of each stream, in order.
	ByStream [][]int32

	after []Done
}

// ProgramCall is an operation of a program.
type ProgramCall struct {
	Op int32 // in Workload.Ops
	// Stream is the position in Streams, -1 for Wait and Step, and At the place in ByStream of it.
	Stream, At int32
	// firstAfter and lastAfter are the range of its After in after.
	firstAfter, lastAfter int32
}

// Done is the end of an operation: the stream has ended so many operations or more.
type Done struct {
	Stream int32
	Count  int32
}

// After are the ends of operations that a call waits for, besides the call before it on its stream.
func (p *Program) After(c *ProgramCall) []Done { return p.after[c.firstAfter:c.lastAfter] }

// programs lists what each program does.
func (b *builder) programs(lists []*rankList) error {
	perProgram := make([]int, len(b.ix.Programs))
	sum := 0
	for i, l := range lists {
		if sum += len(l.programs); sum > MaxCalls {
			return &LineError{Line: Line(i),
				Err: fmt.Errorf("the programs of the ranks have more than %d operations together", MaxCalls)}
		}
		for _, p := range l.programs {
			perProgram[p]++
		}
	}
	for p, n := range perProgram {
		b.ix.Programs[p].Calls = make([]ProgramCall, 0, n)
	}
	for i, l := range lists {
		for _, p := range l.programs {
			prog := &b.ix.Programs[p]
			prog.Calls = append(prog.Calls, ProgramCall{Op: int32(i)})
		}
	}
	for p := range b.ix.Programs {
		if err := b.ix.Programs[p].link(b.w.Ops); err != nil {
			return err
		}
	}
	return nil
}

// link finds the streams of a program, and what its operations wait for.
func (p *Program) link(ops []Op) error {
	streams := map[string]int32{}
	ends := map[int]Done{}
	for i := range p.Calls {
		c := &p.Calls[i]
		o := &ops[c.Op]
		fail := func(format string, args ...any) error {
			return &LineError{Line: Line(int(c.Op)), Err: fmt.Errorf(format, args...)}
		}
		c.firstAfter = int32(len(p.after))
		for _, id := range o.After {
			end, ok := ends[id]
			if !ok {
				return fail("after %d: rank %d has no earlier operation with this id", id, p.Ranks[0])
			}
			p.after = append(p.after, end)
		}
		c.lastAfter = int32(len(p.after))
		c.Stream = -1
		if !o.Kind.HasStream() {
			continue
		}
		s, ok := streams[o.StreamName()]
		if !ok {
			if s = int32(len(p.Streams)); s >= MaxStreams {
				return fail("rank %d has more than %d streams", p.Ranks[0], MaxStreams)
			}
			streams[o.StreamName()] = s
			p.Streams = append(p.Streams, o.StreamName())
			p.ByStream = append(p.ByStream, nil)
		}
		c.Stream, c.At = s, int32(len(p.ByStream[s]))
		p.ByStream[s] = append(p.ByStream[s], int32(i))
		if o.ID != 0 {
			if _, twice := ends[o.ID]; twice {
				return fail("id %d: rank %d has an earlier operation with this id", o.ID, p.Ranks[0])
			}
			ends[o.ID] = Done{Stream: s, Count: c.At + 1}
		}
	}
	return nil
}
