// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// operations are the operations of one rank, in the order of its recorder.
func (c *converter) operations(d *Dump) ([]workload.Op, error) {
	var launches []*Launch
	groups := map[int32]*Group{}
	for _, g := range c.Groups {
		for i := range g.Calls[d.Rank] {
			l := &g.Calls[d.Rank][i]
			launches = append(launches, l)
			groups[l.First] = g
		}
	}
	slices.SortFunc(launches, func(a, b *Launch) int { return cmp.Compare(a.First, b.First) })
	// a computation and a call
	b := &builder{converter: c, dump: d, ops: make([]workload.Op, 0, c.options.Limit.Room(2*len(launches)))}
	for _, l := range launches {
		if err := b.launch(groups[l.First], l); err != nil {
			return nil, err
		}
		if err := c.options.Limit.Check(c.made + len(b.ops)); err != nil {
			return nil, err
		}
	}
	c.made += len(b.ops)
	return b.ops, nil
}

// builder makes the operations of one rank.
type builder struct {
	*converter
	dump *Dump
	ops  []workload.Op
	last int64 // when the last call was made, in ns since 1970
	ids  int
}

// launch adds the operations of a launch.
func (b *builder) launch(g *Group, l *Launch) error {
	entries := l.Entries(b.dump)
	if len(entries) == 0 {
		if b.kept[b.dump][l.First] != nil || l.P2P {
			b.hidden++
		}
		return nil
	}
	ranks := g.Ranks
	if len(ranks) < 2 {
		b.singles += len(entries)
		return nil
	}
	whole := b.kept[b.dump][l.First]
	var parts []workload.Op
	stream := g.Name
	for _, at := range l.places(b.dump) {
		e := b.dump.At(int(at))
		shared := whole
		if e.Func.P2P() {
			shared = b.kept[b.dump][at]
		}
		if shared == nil || e.Marker() {
			continue
		}
		ops, err := b.entry(g, e, shared, len(ranks))
		if err != nil {
			return err
		}
		parts = append(parts, ops...)
	}
	if len(parts) == 0 {
		return nil
	}
	comm, err := b.comm(g, ranks)
	if err != nil {
		return err
	}
	if len(entries) == 1 && entries[0].Func.P2P() {
		comm, stream = b.pairOf(g, ranks, &parts[0], entries[0])
	}
	for i := range parts {
		parts[i].Comm = comm
	}
	op := parts[0]
	if len(parts) > 1 {
		op = workload.Op{Kind: workload.Group, Ops: parts}
	}
	b.add(entries[0].Created, op, stream)
	return nil
}

// comm is the communicator of a group.
func (b *builder) comm(g *Group, ranks workload.Ranks) (string, error) {
	name := cmp.Or(g.Name, workload.World)
	if b.single {
		return b.comms.AddAlike(name, ranks, b.World)
	}
	return b.comms.Add(name, ranks), nil
}

// pairOf is the communicator of a send or receive that is in no batch: PyTorch makes one for each pair of ranks. The
// peer of the operation becomes a rank of that communicator.
func (b *builder) pairOf(g *Group, ranks workload.Ranks, op *workload.Op, e *Entry) (comm, stream string) {
	low, high := min(e.Func.From, e.Func.To), max(e.Func.From, e.Func.To)
	name := fmt.Sprintf("%s %d:%d", g.Name, low, high)
	if op.Peer == high {
		op.Peer = 1
	} else {
		op.Peer = 0
	}
	b.pairs++
	return b.comms.Add(name, workload.Ranks{ranks[low], ranks[high]}), name
}

// add adds an operation after the computation since the last call.
func (b *builder) add(created int64, op workload.Op, stream string) {
	switch {
	case created < 0 || b.last > 0 && created > 0 && max(created-b.last, b.last-created) > workload.MaxNanos:
		b.jumps++
		b.last = max(created, 0) // the times that follow are of the new one
	case b.last > 0 && created > b.last:
		b.ids++
		b.ops = append(b.ops, workload.Op{ID: b.ids, Kind: workload.Calc, Stream: "compute", Nanos: created - b.last})
	}
	b.last = max(b.last, created)
	op.Stream = stream
	if b.ids > 0 {
		op.After = []int{b.ids}
	}
	b.ops = append(b.ops, op)
}

// entry is the operations of a call: several if it has several tensors, none if it is left out.
func (b *builder) entry(g *Group, e *Entry, shared *common, size int) ([]workload.Op, error) {
	if e.Func.P2P() && b.single {
		return nil, errors.New(
			"the ranks of a job with sends and receives do not do the same: give the dumps of all ranks")
	}
	pairs := [][2]int64{{e.In.Elements(), e.Out.Elements()}}
	if n := len(e.In.Sizes); strings.HasSuffix(e.Func.Name, "_coalesced") && n == len(e.Out.Sizes) && n > 1 {
		pairs = nil
		for i := range n {
			pairs = append(pairs, [2]int64{e.In.ElementsOf(i), e.Out.ElementsOf(i)})
		}
	}
	var ops []workload.Op
	for _, p := range pairs {
		op, ok := b.op(g, e, shared, size, p[0], p[1])
		if ok {
			ops = append(ops, op)
		}
	}
	return ops, nil
}

// op is the operation of a call with so many elements; false if it is left out.
func (b *builder) op(g *Group, e *Entry, shared *common, size int, in, out int64) (workload.Op, bool) {
	_, peer := e.ends()
	c := pytorch.Call{Name: e.Func.Name, DType: cmp.Or(e.In.Type(), e.Out.Type()), Peer: peer}
	c.Group = pytorch.Group{Name: g.Name, Ranks: g.Ranks, Size: size}
	switch {
	case c.Foreign():
		b.foreign++
		b.foreignName = cmp.Or(b.foreignName, c.Unknown())
		return workload.Op{}, false
	case len(e.In.Sizes) == 0:
		in = -1
	}
	if len(e.Out.Sizes) == 0 {
		out = -1
	}
	if e.Func.Name == "gather" || e.Func.Name == "scatter" {
		in, out = oneOf(in, out), oneOf(in, out) // the root's list has a tensor for each rank; other ranks have none
	}
	c.SetSizes(in, out)
	barrier := strings.Contains(e.Func.Name, "barrier")
	untyped := c.DType == "" && !barrier
	c.DType = cmp.Or(c.DType, "Float")
	switch {
	case barrier:
	case c.LacksSize():
		b.unsized++
		return workload.Op{}, false
	case c.Empty():
		b.empty++
		return workload.Op{}, false
	}
	op, unequal, err := c.Op(size)
	if err != nil {
		b.foreign++
		b.foreignName = cmp.Or(b.foreignName, err.Error())
		return op, false
	}
	if op.Func == workload.AllGather && !barrier && c.In*int64(size) != c.Out && c.Out > 0 {
		unequal = true
		op.Count = (c.Out + int64(size) - 1) / int64(size)
	}
	if op.Func == workload.AllToAll && shared.count > 0 {
		unequal = true
		op.Count = shared.count
	}
	if unequal {
		b.unequal++
	}
	if untyped {
		op.Type = b.options.ElementType()
		b.untyped++
	}
	if c.Rooted() {
		op.Root = max(shared.root, 0)
		if shared.root < 0 {
			b.roots++
		}
	}
	return op, true
}

// oneOf is the smaller of two numbers that is not zero or unknown, else the larger one.
func oneOf(a, b int64) int64 {
	if a > b {
		a, b = b, a
	}
	if a > 0 {
		return a
	}
	return b
}
