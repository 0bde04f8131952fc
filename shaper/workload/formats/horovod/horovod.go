// SPDX-License-Identifier: Apache-2.0

// Package horovod reads Horovod's timeline (HOROVOD_TIMELINE), which its coordinator, rank 0, writes: events of
// Chrome's trace format, in which each tensor is a process. A tensor is negotiated (NEGOTIATE_ALLREDUCE, with an event
// for each rank that is ready), then it is reduced (ALLREDUCE), with what happens to it inside, such as
// NCCL_ALLREDUCE. The end has the type and the shape of what comes out.
//
// Horovod copies several tensors into one buffer and calls NCCL once. The timeline does not say which; their activities
// begin together and end together.
package horovod

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// event is an event of the timeline. One that ends has no name.
type event struct {
	Name  string          `json:"name"`
	Phase string          `json:"ph"`
	PID   int64           `json:"pid"`
	TS    float64         `json:"ts"` // us
	Args  json.RawMessage `json:"args"`
}

// reader collects what a timeline says.
type reader struct {
	options input.Options
	names   map[int64]string // of tensors, by pid
	texts   input.Names
	tensors map[int64]*tensor
	pids    []int64 // of the tensors by their numbers
	parts   []part
	ranks   int // that were ready for a tensor
	begins  map[string]*run
	ends    map[string]*run
	runs    int32

	cut        bool
	unended    int
	unsized    int
	strange    map[string]int // phases
	unknown    map[string]int // operations
	adasum     int
	layered    int
	uneven     int
	rootless   int
	fused      int
	untimed    int
	negotiated bool
}

// Read reads a timeline.
func Read(f input.File, o input.Options) (*workload.Workload, error) {
	r := &reader{
		options: o, names: map[int64]string{}, tensors: map[int64]*tensor{}, begins: map[string]*run{},
		ends:    map[string]*run{},
		strange: map[string]int{}, unknown: map[string]int{},
	}
	if err := r.read(f); err != nil {
		return nil, err
	}
	if len(r.parts) == 0 {
		return nil, fmt.Errorf("%s: no operation of Horovod has ended", f.Name)
	}
	if err := o.CheckRanks(f.Name, r.ranks); err != nil {
		return nil, err
	}
	ranks := max(o.Ranks, r.ranks)
	switch {
	case ranks == 0:
		return nil, fmt.Errorf("%s does not say how many ranks the job had: add --ranks N", f.Name)
	case ranks > workload.MaxRanks:
		return nil, fmt.Errorf("%s: %d ranks: at most %d are possible", f.Name, ranks, workload.MaxRanks)
	case !o.OneForAll && ranks > 1:
		return nil, fmt.Errorf("%s: a timeline is of rank 0 alone, and without --spmd it cannot stand for %d ranks",
			f.Name, ranks)
	}
	ops, err := r.operations(ranks)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: ranks}, Ops: ops}
	if len(w.Ops) == 0 {
		return nil, fmt.Errorf("%s: no operation of a known type and size", f.Name)
	}
	w.Head.Source = r.source(ranks)
	w.Head.Source.File = filepath.Base(f.Name)
	return w, nil
}

// read reads the array of events. Horovod before 0.17 does not end it.
func (r *reader) read(f input.File) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	j := in.JSON()
	err = j.Array(func() error {
		var e event
		if err := j.Decode(&e); err != nil {
			return err
		}
		return r.event(&e)
	})
	if errors.Is(err, input.ErrCut) {
		r.cut = true
		err = nil
	}
	for _, t := range r.tensors {
		if len(t.open) > 0 {
			r.unended++
		}
	}
	return err
}

// operations are those of each rank: one step after the other, and the calls of one in their order on one stream.
func (r *reader) operations(ranks int) ([]workload.Op, error) {
	calls := r.calls()
	ops := make([]workload.Op, 0, r.options.Limit.Room(2*len(calls)+1)) // a computation and a call
	id, calc := 0, 0
	add := func(o workload.Op) int {
		id++
		o.ID = id
		ops = append(ops, o)
		return id
	}
	var before []int // the calls of the step before
	var current []int
	seen := map[int32]bool{}
	last := int64(-1) // when the data of the call before was ready, or the step before had ended
	ended := int64(0)
	for _, c := range calls {
		if err := r.options.Limit.Check(len(ops)); err != nil {
			return nil, err
		}
		o, ok := r.op(c, ranks)
		if !ok {
			continue
		}
		if slices.ContainsFunc(c, func(p part) bool { return seen[p.tensor] }) {
			ops = append(ops, workload.Op{Kind: workload.Step})
			before, current = current, nil
			clear(seen)
			last = max(last, ended)
		}
		ready, end := int64(0), int64(0)
		for i := range c {
			seen[c[i].tensor] = true
			ready, end = max(ready, c[i].ready), max(end, c[i].end)
		}
		if last >= 0 && (ready > last || len(before) > 0) {
			calc = add(workload.Op{Kind: workload.Calc, Stream: "compute",
				Nanos: min(max(ready-last, 0), workload.MaxNanos/1000) * 1000, After: before})
			before = nil
		}
		last, ended = max(last, ready), max(ended, end)
		o.Stream = "nccl"
		if calc > 0 {
			o.After = []int{calc}
		}
		current = append(current, add(o))
	}
	if len(ops) > 0 {
		ops = append(ops, workload.Op{Kind: workload.Step})
	}
	return ops, nil
}

// calls are the parts by the calls that they are of, in the order in which these began.
func (r *reader) calls() [][]part {
	slices.SortStableFunc(r.parts, func(a, b part) int {
		return cmp.Or(cmp.Compare(a.begun, b.begun), cmp.Compare(a.ended, b.ended), cmp.Compare(a.fn, b.fn),
			cmp.Compare(a.typ, b.typ))
	})
	var out [][]part
	for i, p := range r.parts {
		if i > 0 {
			if q := r.parts[i-1]; p.begun != 0 && p.begun == q.begun && p.ended == q.ended && p.fn == q.fn &&
				p.typ == q.typ {
				out[len(out)-1] = r.parts[i-len(out[len(out)-1]) : i+1]
				continue
			}
		}
		out = append(out, r.parts[i:i+1])
	}
	slices.SortStableFunc(out, func(a, b []part) int { return cmp.Compare(a[0].start, b[0].start) })
	return out
}

// op is the call of NCCL for these tensors.
func (r *reader) op(c []part, ranks int) (o workload.Op, ok bool) {
	if c[0].typ == 0 {
		r.unsized += len(c)
		return o, false
	}
	size := int64(1)
	o = workload.Op{Kind: workload.Coll, Func: funcs[c[0].fn], Type: types[c[0].typ].name,
		Name: r.names[r.pids[c[0].tensor]]}
	for i := range c {
		o.Count += c[i].elements
	}
	switch o.Func {
	case workload.AllGather, workload.AllToAll:
		size = int64(ranks)
	case workload.Broadcast:
		r.rootless++
	}
	if o.Count%size != 0 {
		r.uneven++
	}
	o.Count = (o.Count + size - 1) / size
	if len(c) > 1 {
		r.fused += len(c)
		o.Name += fmt.Sprintf(" and %d more", len(c)-1)
	}
	return o, true
}

// source says what the timeline does not.
func (r *reader) source(ranks int) workload.Source {
	s := workload.Source{Kind: "horovod", Missing: []string{
		"what waits for a call: the computation of the next step is taken to wait",
		"which tensors are one call: those whose activities begin and end together are taken to be",
		"process sets: all ranks are taken to take part",
	}}
	missing := input.Sentences(&s.Missing)
	missing(ranks > 1, "what other ranks do: all %d are taken to do what rank 0 did", ranks)
	missing(r.rootless > 0, "the root of %s: rank 0 is taken", units.Count(r.rootless, "broadcast"))
	missing(!r.negotiated, "when tensors were ready: there is no negotiation, and the begin of an operation is taken")
	note := input.Counts(&s.Notes)
	note(r.fused, "tensor", "several in one call")
	note(r.layered, "tensor",
		"reduced in layers (within nodes, then between them): one AllReduce of all ranks is taken")
	note(r.adasum, "tensor", "reduced by Adasum: an AllReduce is taken")
	note(r.uneven, "call", "the ranks give parts of different sizes: the mean was taken")
	note(r.unsized, "tensor", "left out, the timeline does not say its type and shape")
	note(r.untimed, "event", "a time that is none: 0 was taken")
	if r.cut {
		s.Notes = append(s.Notes,
			"the file ends without the end of its list: it is of a job that was stopped, or of an old Horovod")
	}
	note(r.unended, "tensor", "left out, the timeline ends before it")
	for _, name := range slices.Sorted(maps.Keys(r.unknown)) {
		note(r.unknown[name], "tensor", fmt.Sprintf("left out, of %q, no operation that is known", name))
	}
	for _, name := range slices.Sorted(maps.Keys(r.strange)) {
		note(r.strange[name], "event", fmt.Sprintf("of phase %q: not understood", name))
	}
	return s
}
