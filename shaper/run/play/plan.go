// SPDX-License-Identifier: Apache-2.0

package play

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// plan is what one rank plays.
type plan struct {
	rank  int
	items []item
	// marks are, for each step, the number of items when it ends.
	marks   []int
	streams int
}

// item is an operation of a plan: all but marks of steps.
type item struct {
	op     *workload.Op
	line   int   // of the workload
	stream int32 // -1 for a wait
	after  []int // items, those of its own stream left out
	calls  []call
}

// call is a call of NCCL: an item has one, or the calls of a group.
type call struct {
	what  Call
	check bool
}

// Call is a call of NCCL as a rank makes it.
type Call struct {
	Comm  int32 // in Index.Comms
	Kind  workload.Kind
	Func  workload.Func // of Coll
	Count int64
	Type  string
	RedOp string // "" if nothing is reduced
	Root  int
	// From and To are the ranks in the communicator of Send and Recv.
	From, To int
}

// matched is c as both ends of a message see it: a send and its receive are one.
func (c Call) matched() Call {
	if c.Kind == workload.Recv {
		c.Kind = workload.Send
	}
	return c
}

// checks says which calls get an input of which each element of the output is known.
type checks int

const (
	checkNone checks = iota
	checkLast        // the last of equal calls
	checkAll
)

// planner makes plans.
type planner struct {
	ix    *workload.Index
	steps int
	check checks
	// once leaves out computation, waits of the host, and all but the first of equal collectives. So the ranks connect
	// and NCCL's code is in memory. Sends and receives are all there: two ranks may divide equal ones into groups in
	// different ways. Without waits the host threads run ahead of the streams, and connect at one virtual time: a host
	// thread that connects takes none, so one that had waited less than its peer would keep the clock from moving.
	once bool
}

// stepsOf is the number of steps of a rank in the file. Operations after the last mark are a step too.
func stepsOf(ix *workload.Index, rank int) int {
	n, open := 0, false
	for _, op := range ix.OfRank(rank) {
		open = op.Kind != workload.Step
		if !open {
			n++
		}
	}
	if open {
		n++
	}
	return n
}

// StepsOf is the number of steps of a workload, each of which ends at a mark; operations after the last mark are one
// more. All ranks must have as many, but for those that do nothing.
func StepsOf(ix *workload.Index) (int, error) {
	n, first := 0, 0
	for i := range ix.Programs {
		rank := ix.Programs[i].Ranks[0]
		switch m := stepsOf(ix, rank); {
		case m == 0 || m == n:
		case n == 0:
			n, first = m, rank
		default:
			return 0, fmt.Errorf("rank %d has %s, rank %d has %d: give all ranks the same steps", first,
				units.Count(n, "step"), rank, m)
		}
	}
	if n == 0 {
		return 0, errors.New("the workload has no operations")
	}
	return n, nil
}

// plans makes the plans of all ranks.
func (p *planner) plans() ([]*plan, error) {
	all := make([]*plan, p.ix.Workload.Head.Ranks)
	for rank := range all {
		var err error
		if all[rank], err = p.plan(rank); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// plan plays the file from its beginning until it has played the steps.
func (p *planner) plan(rank int) (*plan, error) {
	b := &planBuilder{planner: p, prog: p.ix.Program(rank), plan: &plan{rank: rank}, seen: map[Call]bool{}}
	b.plan.streams = len(b.prog.Streams)
	b.number = make([]int, len(b.prog.Calls))
	for len(b.plan.marks) < p.steps {
		before := len(b.plan.marks)
		if err := b.pass(); err != nil {
			return nil, err
		}
		if len(b.plan.marks) == before {
			break // this rank does nothing
		}
	}
	if p.check != checkNone {
		b.plan.mark(p.check)
	}
	return b.plan, nil
}

// planBuilder makes one plan.
type planBuilder struct {
	*planner
	prog *workload.Program
	plan *plan
	seen map[Call]bool
	// number is the item of each call of the program in this pass. A call that is left out has the item of the last one
	// before it on its stream, -1 for none.
	number []int
}

// pass adds the file once, or until all steps are there.
func (b *planBuilder) pass() error {
	last := slices.Repeat([]int{-1}, b.plan.streams)
	open := false
	for i := range b.prog.Calls {
		c := &b.prog.Calls[i]
		op := &b.ix.Workload.Ops[c.Op]
		open = op.Kind != workload.Step
		if !open {
			if b.endStep(); len(b.plan.marks) == b.steps {
				return nil
			}
			continue
		}
		added, err := b.add(c, op)
		if err != nil {
			return &workload.LineError{Line: workload.Line(int(c.Op)), Err: err}
		}
		if c.Stream < 0 {
			continue
		}
		if added {
			last[c.Stream] = len(b.plan.items) - 1
		}
		b.number[i] = last[c.Stream]
	}
	if open {
		b.endStep()
	}
	return nil
}

func (b *planBuilder) endStep() { b.plan.marks = append(b.plan.marks, len(b.plan.items)) }

// add adds an operation unless it is to be left out.
func (b *planBuilder) add(c *workload.ProgramCall, op *workload.Op) (bool, error) {
	it := item{op: op, line: workload.Line(int(c.Op)), stream: c.Stream, after: b.after(c)}
	switch op.Kind {
	case workload.Calc:
		if b.once {
			return false, nil
		}
	case workload.Wait:
		if b.once {
			return false, nil
		}
	default:
		for part := range op.Parts() {
			what, err := b.call(part)
			if err != nil {
				return false, err
			}
			it.calls = append(it.calls, call{what: what})
		}
		if b.once && op.Kind == workload.Coll {
			if b.seen[it.calls[0].what] {
				return false, nil
			}
			b.seen[it.calls[0].what] = true
		}
	}
	b.plan.items = append(b.plan.items, it)
	return true, nil
}

// after are the items that a call waits for: of each other stream the last one, because those before it have ended
// then.
func (b *planBuilder) after(c *workload.ProgramCall) []int {
	latest := map[int32]int{}
	for _, done := range b.prog.After(c) {
		if done.Stream == c.Stream {
			continue
		}
		number := b.number[b.prog.ByStream[done.Stream][done.Count-1]]
		if known, ok := latest[done.Stream]; number >= 0 && (!ok || number > known) {
			latest[done.Stream] = number
		}
	}
	return slices.Sorted(maps.Values(latest))
}

// call is a part of an operation as this rank calls it.
func (b *planBuilder) call(op *workload.Op) (Call, error) {
	place, ok := b.ix.Place(op.Comm, b.plan.rank)
	if !ok {
		return Call{}, fmt.Errorf("rank %d is not in communicator %s", b.plan.rank, op.Comm)
	}
	c := Call{Comm: place.Comm, Kind: op.Kind, Func: op.Func, Count: op.Count, Type: op.Type, Root: op.Root}
	if op.Kind == workload.Coll {
		if op.Func.Reduces() {
			c.RedOp = cmp.Or(op.RedOp, "sum")
		}
		return c, nil
	}
	me, peer := int(place.At), op.PeerOf(int(place.At), len(b.ix.Comms[place.Comm].Ranks))
	c.From, c.To = me, peer
	if op.Kind == workload.Recv {
		c.From, c.To = peer, me
	}
	return c, nil
}

// mark marks the calls to check. The k-th send to a peer is the k-th receive of the peer, so both ends mark the same.
func (p *plan) mark(which checks) {
	done := map[Call]bool{}
	for i := len(p.items) - 1; i >= 0; i-- {
		calls := p.items[i].calls
		for n := len(calls) - 1; n >= 0; n-- {
			what := calls[n].what
			if which == checkAll || !done[what] {
				calls[n].check, done[what] = true, true
			}
		}
	}
}
