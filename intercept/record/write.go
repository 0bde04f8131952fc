// SPDX-License-Identifier: Apache-2.0

package record

import (
	"reflect"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// host is the stream of computation.
const host = "host"

// write adds the operations of all ranks: of each rank the first ones, then the second ones. Equal ones of several
// ranks are one line.
func (r *recorder) write(programs [][]workload.Op) {
	longest := 0
	for _, ops := range programs {
		longest = max(longest, len(ops))
	}
	for i := range longest {
		first := len(r.out.Ops)
		for rank, ops := range programs {
			if i < len(ops) {
				r.add(first, ops[i], rank)
			}
		}
	}
}

// add adds an operation of a rank to an equal one from place first on, or as a new one.
func (r *recorder) add(first int, op workload.Op, rank int) {
	for i := first; i < len(r.out.Ops); i++ {
		known := r.out.Ops[i]
		known.Ranks = nil
		if reflect.DeepEqual(known, op) {
			r.out.Ops[i].Ranks = append(r.out.Ops[i].Ranks, rank)
			return
		}
	}
	op.Ranks = workload.Ranks{rank}
	r.out.Ops = append(r.out.Ops, op)
}

// program is what one rank does. Operation k has the id k+1, so that equal operations of several ranks are equal.
func (r *recorder) program(calls []launched, start int64) []workload.Op {
	p := &program{recorder: r, before: start}
	for i := range calls {
		if calls[i].step {
			p.ops = append(p.ops, workload.Op{Kind: workload.Step})
			continue
		}
		p.call(&calls[i])
	}
	return p.ops
}

// program is the operations of one rank so far.
type program struct {
	*recorder
	ops    []workload.Op
	before int64 // when the rank made the last call
	calc   []int // the last computation
	open   []open
}

// open is a call that nobody has waited for.
type open struct {
	id   int
	comm string
	end  int64
}

func (p *program) add(op workload.Op) int {
	op.ID = len(p.ops) + 1
	if op.Kind == workload.Wait {
		op.ID = 0
	}
	p.ops = append(p.ops, op)
	return len(p.ops)
}

// call adds a call, and before it what the rank did since the last one.
func (p *program) call(l *launched) {
	if p.isEarly(l) {
		p.early++
	}
	at := l.at
	if l.least > 0 {
		at = min(l.at, max(l.least, p.before))
	}
	calc, ids := p.between(at)
	if at < l.at {
		calc.MaxNanos = max(calc.Nanos, calc.MaxNanos) + l.at - at
	}
	if calc.MaxNanos <= calc.Nanos {
		calc.MaxNanos = 0
	}
	if calc.Nanos > 0 || calc.MaxNanos > 0 {
		p.total++
		p.calc, ids = []int{p.add(calc)}, nil
	}
	op := p.op(l.tasks)
	op.Stream, op.After = op.Comm, append(slices.Clone(p.calc), ids...)
	if op.Kind == workload.Group {
		op.Stream = op.Ops[0].Comm
	}
	p.open = append(p.open, open{p.add(op), p.comms[p.trace.Tasks[l.tasks[0]].Comm], l.end})
	p.before = at
}

// between is the computation from the last call until a time, and what else the next call comes after. What had ended
// until then the host waits for; of a job that was only recorded, the stream that computes, because the host of a GPU
// launches ahead.
func (p *program) between(at int64) (calc workload.Op, after []int) {
	free := at - p.before
	waited, ids := p.ended(at)
	calc = workload.Op{Kind: workload.Calc, Stream: host, Nanos: free}
	if len(ids) == 0 {
		return calc, nil
	}
	rest := at - waited
	if rest > 0 && waited > p.before {
		p.unsure++
	}
	if p.o.NoWaits {
		return calc, nil
	}
	if p.isAlone() {
		calc.After, after = ids, ids
	} else {
		p.add(workload.Op{Kind: workload.Wait, After: ids})
	}
	if waited > p.before { // else it had ended before the last call was made
		calc.Nanos, calc.MaxNanos = rest, free
	}
	return calc, after
}

// isEarly says whether a call before on the communicator had not ended when this one was planned.
func (p *program) isEarly(l *launched) bool {
	comm := p.comms[p.trace.Tasks[l.tasks[0]].Comm]
	return slices.ContainsFunc(p.open, func(o open) bool { return o.comm == comm && o.end > l.at })
}

// ended removes the calls that had ended at a time from those that are open, and returns when the last of them did.
func (p *program) ended(at int64) (last int64, ids []int) {
	p.open = slices.DeleteFunc(p.open, func(o open) bool {
		if o.end > at {
			return false
		}
		last = max(last, o.end)
		ids = append(ids, o.id)
		return true
	})
	return last, ids
}

// op is a call, or a group of calls.
func (p *program) op(tasks []int) workload.Op {
	if len(tasks) == 1 {
		return p.one(&p.trace.Tasks[tasks[0]])
	}
	group := workload.Op{Kind: workload.Group}
	for _, i := range tasks {
		group.Ops = append(group.Ops, p.one(&p.trace.Tasks[i]))
	}
	return group
}

// bytesType is the type of a call whose count is in bytes: NCCL does not tell the kernel of a call that computes
// nothing the type.
const bytesType = "int8"

// types are the names of types that differ from the ledger's names.
var types = map[string]string{"half": "float16", "float": "float32", "double": "float64", "fp8e4m3": "float8e4m3",
	"fp8e5m2": "float8e5m2"}

func (p *program) one(x *messages.Task) workload.Op {
	op := workload.Op{Kind: workload.Coll, Comm: p.comms[x.Comm], Count: int64(x.Count), Type: x.Datatype}
	if name, differs := types[x.Datatype]; differs {
		op.Type = name
	}
	if op.Type == "" {
		op.Type = bytesType
		p.untyped++
	}
	switch x.Func {
	case "Send":
		op.Kind, op.Peer = workload.Send, x.Peer
	case "Recv":
		op.Kind, op.Peer = workload.Recv, x.Peer
	default:
		if f, err := workload.ParseFunc(x.Func); err == nil {
			if op.Func = f; f.Rooted() {
				op.Root = x.Peer
			}
		} else {
			op.Func = workload.Func(x.Func)
		}
	}
	return op
}
