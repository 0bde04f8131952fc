// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"encoding/json"
	"regexp"
	"sort"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// PyTorch up to 2.2 does not write what a call moves and which group it is of. What there is: the annotation of the
// call has one of its tensors, the operator of c10d around it has both, and the stream of the kernel belongs to one
// communicator.

// tensors are the elements that go into a call and that come out of it on a rank; -1 is not known.
type tensors struct{ in, out int64 }

// operator is an operator c10d::NAME on the host, which is around a call.
type operator struct {
	start, end int64
	thread     input.Text
	name       string // without c10d::
	dtype      string
	tensors
	peer   int  // -1 if not recorded
	called bool // a call was recorded in it
}

// operators are the operators of c10d, with the places of their arguments (torch/csrc/distributed/c10d/Ops.cpp).
// Operators of one list of tensors have it for in and out.
var operators = map[string]struct{ out, in, peer int }{
	"_allgather_base_":                 {0, 1, -1},
	"allgather_":                       {0, 1, -1},
	"allgather_coalesced_":             {0, 1, -1},
	"allgather_into_tensor_coalesced_": {0, 1, -1},
	"_reduce_scatter_base_":            {0, 1, -1},
	"reduce_scatter_":                  {0, 1, -1},
	"reduce_scatter_tensor_coalesced_": {0, 1, -1},
	"alltoall_base_":                   {0, 1, -1},
	"alltoall_":                        {0, 1, -1},
	"gather_":                          {0, 1, -1},
	"scatter_":                         {0, 1, -1},
	"allreduce_":                       {0, 0, -1},
	"allreduce_coalesced_":             {0, 0, -1},
	"broadcast_":                       {0, 0, -1},
	"reduce_":                          {0, 0, -1},
	"send":                             {0, 0, 2},
	"recv_":                            {0, 0, 2},
	"recv_any_source_":                 {0, 0, -1},
}

// keepOperator keeps an operator of c10d.
func (r *rank) keepOperator(e *event, start, end int64) {
	name := strings.TrimPrefix(e.Name, "c10d::")
	at, ok := operators[name]
	if !ok {
		return
	}
	a := e.args(r)
	shapes := a.shapes()
	o := operator{start: start, end: end, thread: e.TID, name: name, peer: -1,
		tensors: tensors{shapes.elements(at.in), shapes.elements(at.out)}}
	if o.dtype = shapes.dtype(at.in); o.dtype == "" {
		o.dtype = shapes.dtype(at.out)
	}
	var concrete []string
	if at.peer >= 0 && json.Unmarshal(a.Concrete, &concrete) == nil && at.peer < len(concrete) {
		o.peer = int(input.Text(concrete[at.peer]).Number(-1))
	}
	r.operators = append(r.operators, o)
}

// around is the innermost operator at a time on a thread, nil if there is none. The operators are in order.
func (r *rank) around(thread input.Text, at int64) *operator {
	next := sort.Search(len(r.operators), func(i int) bool { return r.operators[i].start > at })
	for i := next - 1; i >= 0 && i >= next-8; i-- { // those of other threads may lie between
		if o := &r.operators[i]; o.thread == thread && at <= o.end {
			return o
		}
	}
	return nil
}

// open makes the call of an annotation, of which the group is not known yet, so that its sizes stay open.
func (r *rank) open(rec *record, a *args, name string) {
	shapes := a.shapes()
	rec.open, rec.call = true, pytorch.Call{Name: r.shared(name), DType: r.shared(shapes.dtype(0)), Peer: peerOf(name)}
	n := shapes.all()
	if rec.tensors = (tensors{-1, -1}); n >= 0 {
		rec.in, rec.out = rec.call.Annotated(n)
	}
}

// complete puts what the operators around calls say into them.
func (r *rank) complete(calls []record) {
	for i := range calls {
		c := &calls[i]
		o := r.around(c.thread, c.start)
		if o == nil {
			continue
		}
		o.called = true
		if c.call.Peer < 0 {
			c.call.Peer = o.peer
		}
		if !c.open {
			continue
		}
		if o.name == "alltoall_" { // the annotation has the first tensor of the list only
			c.in, c.call.PartsUnknown = o.in, true
		}
		c.in, c.out = known(c.in, o.in), known(c.out, o.out)
		c.call.DType = cmp.Or(c.call.DType, o.dtype)
	}
}

// known is a, or b if a is not known.
func known(a, b int64) int64 {
	if a >= 0 {
		return a
	}
	return b
}

// settle finds the groups and the sizes of calls that do not say them, in a job of so many ranks.
func settle(all []activity, world int, left *counts) {
	bySizes := map[input.Text]map[int]bool{} // by stream
	for i := range all {
		a := &all[i]
		if a.call.Group.Known() || !a.call.Moves() {
			continue
		}
		in, out := a.call.In, a.call.Out
		if a.open {
			in, out = a.in, a.out
		}
		n := a.call.GroupBySizes(in, out)
		if n == 0 || world > 0 && (n > world || world%n != 0) {
			continue
		}
		if a.call.Group.Size = n; !a.hostOnly {
			if bySizes[a.stream] == nil {
				bySizes[a.stream] = map[int]bool{}
			}
			bySizes[a.stream][n] = true
		}
	}
	for i := range all {
		a := &all[i]
		if !a.call.Group.Known() && a.call.Moves() {
			a.call.Group.Size = world
			sizes := bySizes[a.stream]
			switch {
			case len(sizes) == 1 && !a.hostOnly:
				for n := range sizes {
					a.call.Group.Size = n
				}
				left.byStream++
			case !a.open || max(a.in, a.out) > 0:
				left.everyone++
			}
		}
		if a.open {
			a.settle()
			left.annotated += min(int(max(a.in, a.out, 0)), 1)
		}
	}
}

// settle sets the sizes of a call whose group is known.
func (a *activity) settle() {
	if a.call.IsAllToAll() {
		a.call.PartsUnknown = true
		a.in, a.out = known(a.in, a.out), known(a.out, a.in)
	}
	a.call.SetSizes(a.in, a.out)
	a.open = false
}

// backends matches the annotations of calls of other backends than NCCL's.
var backends = regexp.MustCompile(`^(gloo|mpi|ucc|xccl|hccl|oneccl|mtia|cncl|eccl):`)

// uncalled counts the operators of c10d in which no call of NCCL was recorded, and names one.
func (r *rank) uncalled() (n int, name string) {
	for i := range r.operators {
		if o := &r.operators[i]; !o.called {
			n, name = n+1, "c10d::"+o.name
		}
	}
	return n, name
}
