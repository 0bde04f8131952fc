// SPDX-License-Identifier: Apache-2.0

// Package perrank makes a workload of the operations of each rank, and the reverse.
package perrank

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Join makes the operations of a workload of those of each rank, which name no ranks themselves. Operations at the same
// place of the lists of several ranks that are equal become one.
func Join(ranks [][]workload.Op, comms []workload.Comm) []workload.Op {
	longest := 0
	for _, ops := range ranks {
		longest = max(longest, len(ops))
	}
	var out []workload.Op
	for i := range longest {
		first := len(out)
		for r, ops := range ranks {
			if i >= len(ops) {
				continue
			}
			at := slices.IndexFunc(out[first:], func(o workload.Op) bool { return equal(&o, &ops[i]) })
			if at < 0 {
				out = append(out, ops[i])
				at = len(out) - 1 - first
			}
			o := &out[first+at]
			o.Ranks = append(o.Ranks, r)
		}
		for k := range out[first:] {
			dropDefault(&out[first+k], len(ranks), comms)
		}
	}
	return out
}

// dropDefault removes the ranks of an operation if they are those that it has without.
func dropDefault(o *workload.Op, ranks int, comms []workload.Comm) {
	if slices.Equal(o.Ranks, members(o, ranks, comms)) {
		o.Ranks = nil
	}
}

// members are the ranks of an operation that names none, in order.
func members(o *workload.Op, ranks int, comms []workload.Comm) workload.Ranks {
	if o.Comm == "" {
		return All(ranks)
	}
	var out workload.Ranks
	for _, c := range comms {
		if c.Name == o.Comm {
			out = append(out, c.Ranks...)
		}
	}
	slices.Sort(out)
	return out
}

// equal compares two operations but for their ranks.
func equal(a, b *workload.Op) bool {
	return a.ID == b.ID && a.Kind == b.Kind && a.Name == b.Name && a.Stream == b.Stream &&
		a.Nanos == b.Nanos && a.MaxNanos == b.MaxNanos && a.Comm == b.Comm && a.Func == b.Func && a.Count == b.Count &&
		a.Type == b.Type && a.RedOp == b.RedOp && a.Root == b.Root && a.Peer == b.Peer && a.Relative == b.Relative &&
		slices.Equal(a.After, b.After) &&
		slices.EqualFunc(a.Ops, b.Ops, func(x, y workload.Op) bool { return equal(&x, &y) })
}

// Split returns the operations of each rank of w, in order. They name no ranks, each names its communicator, and peers are
// not relative.
func Split(w *workload.Workload) ([][]workload.Op, error) {
	comms := Comms(w)
	ix := NewIndex(comms)
	out := make([][]workload.Op, w.Head.Ranks)
	for i := range w.Ops {
		o := w.Ops[i]
		if len(comms) == 1 && o.Comm == "" && hasComm(o.Kind) {
			o.Comm = comms[0].Name
		}
		ranks := o.Ranks
		if len(ranks) == 0 {
			ranks = members(&o, w.Head.Ranks, comms)
		}
		for _, r := range ranks {
			if r >= len(out) {
				return nil, fmt.Errorf("operation %d: rank %d of a workload of %d ranks", i+1, r, len(out))
			}
			own, err := forRank(o, r, comms, ix)
			if err != nil {
				return nil, fmt.Errorf("operation %d: %w", i+1, err)
			}
			out[r] = append(out[r], own)
		}
	}
	return out, nil
}

// Comms are the communicators of a workload: the world if it names none.
func Comms(w *workload.Workload) []workload.Comm {
	if len(w.Head.Comms) > 0 {
		return w.Head.Comms
	}
	return []workload.Comm{{Name: workload.World, Ranks: All(w.Head.Ranks)}}
}

func hasComm(k workload.Kind) bool {
	return k == workload.Coll || k == workload.Send || k == workload.Recv
}

// forRank is the operation as rank r calls it.
func forRank(o workload.Op, r int, comms []workload.Comm, ix Index) (workload.Op, error) {
	o.Ranks = nil
	o.After = slices.Clone(o.After)
	o.Ops = slices.Clone(o.Ops)
	for i, inner := range o.Ops {
		if inner.Comm == "" {
			inner.Comm = o.Comm
		}
		if inner.Comm == "" && len(comms) == 1 {
			inner.Comm = comms[0].Name
		}
		var err error
		if o.Ops[i], err = forRank(inner, r, comms, ix); err != nil {
			return o, err
		}
	}
	if !hasComm(o.Kind) {
		return o, nil
	}
	c := ix.Of(o.Comm, r)
	if c == nil {
		return o, fmt.Errorf("rank %d is in no communicator %q", r, o.Comm)
	}
	if o.Relative {
		o.Peer, o.Relative = o.PeerOf(slices.Index(c.Ranks, r), len(c.Ranks)), false
	}
	return o, nil
}

// Index finds communicators by name and rank.
type Index map[string]map[int]*workload.Comm

// NewIndex returns an index of communicators.
func NewIndex(comms []workload.Comm) Index {
	ix := Index{}
	for i := range comms {
		c := &comms[i]
		if ix[c.Name] == nil {
			ix[c.Name] = map[int]*workload.Comm{}
		}
		for _, r := range c.Ranks {
			ix[c.Name][r] = c
		}
	}
	return ix
}

// Of is the communicator of a name in which a rank is, nil if there is none.
func (ix Index) Of(name string, rank int) *workload.Comm { return ix[name][rank] }
