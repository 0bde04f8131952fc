// SPDX-License-Identifier: Apache-2.0

// Package perrank makes a workload of the operations of each rank, and the reverse.
package perrank

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Join makes the operations of a workload of the operations of each rank, which name no ranks themselves. Operations at
// the same place of the lists of several ranks that are equal become one.
func Join(ranks [][]workload.Op, comms []workload.Comm) []workload.Op {
	return NewJoiner(comms).Join(ranks)
}

// Workload makes a workload of the operations of each rank, or of one rank that stands for all of them.
func Workload(ranks int, lists [][]workload.Op, comms []workload.Comm, source workload.Source) *workload.Workload {
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: ranks, Comms: comms, Source: source}}
	if w.Ops = lists[0]; len(lists) > 1 {
		w.Ops = Join(lists, comms)
	}
	return w
}

// Joiner joins the operations of ranks on the same communicators, several times. The time that it takes grows with the
// number of operations, however different they are.
type Joiner struct {
	byName map[string]workload.Ranks // in order, of all communicators of a name
	seed   maphash.Seed
	row    map[uint64][]int // places of the operations of a row, by their hashes
}

// NewJoiner returns a joiner of operations on these communicators.
func NewJoiner(comms []workload.Comm) *Joiner {
	j := &Joiner{byName: map[string]workload.Ranks{}, seed: maphash.MakeSeed(), row: map[uint64][]int{}}
	for _, c := range comms {
		known := j.byName[c.Name]
		j.byName[c.Name] = append(known, c.Ranks...)
		if known == nil { // the list as it is, which an append copies
			j.byName[c.Name] = slices.Clip(c.Ranks)
		}
	}
	for name, ranks := range j.byName {
		if !slices.IsSorted(ranks) {
			j.byName[name] = slices.Sorted(slices.Values(ranks))
		}
	}
	return j
}

// Join is the function Join.
func (j *Joiner) Join(ranks [][]workload.Op) []workload.Op {
	longest := 0
	for _, ops := range ranks {
		longest = max(longest, len(ops))
	}
	var out []workload.Op
	for i := range longest {
		first := len(out)
		clear(j.row)
		for r, ops := range ranks {
			if i < len(ops) {
				out = j.add(out, &ops[i], r)
			}
		}
		for k := range out[first:] {
			j.dropDefault(&out[first+k], len(ranks))
		}
	}
	return out
}

// add adds the operation of a rank to the operations of a row, or the rank to an equal one.
func (j *Joiner) add(out []workload.Op, o *workload.Op, rank int) []workload.Op {
	var h maphash.Hash
	h.SetSeed(j.seed)
	hash(&h, o)
	key := h.Sum64()
	for _, at := range j.row[key] {
		if equal(&out[at], o) {
			out[at].Ranks = append(out[at].Ranks, rank)
			return out
		}
	}
	j.row[key] = append(j.row[key], len(out))
	out = append(out, *o)
	out[len(out)-1].Ranks = append(o.Ranks, rank)
	return out
}

// dropDefault removes the ranks of an operation, which are in order, if they are those that it has without.
func (j *Joiner) dropDefault(o *workload.Op, ranks int) {
	if o.Comm == "" && len(o.Ranks) == ranks || o.Comm != "" && slices.Equal(o.Ranks, j.byName[o.Comm]) {
		o.Ranks = nil
	}
}

// hash adds an operation but for its ranks to a hash: all that equal compares.
func hash(h *maphash.Hash, o *workload.Op) {
	maphash.WriteComparable(h, [...]string{string(o.Kind), o.Name, o.Stream, o.Comm, string(o.Func), o.Type, o.RedOp})
	maphash.WriteComparable(h, [...]int64{int64(o.ID), o.Nanos, o.MaxNanos, o.Count, int64(o.Root), int64(o.Peer)})
	maphash.WriteComparable(h, o.Relative)
	for _, id := range o.After {
		maphash.WriteComparable(h, id)
	}
	for i := range o.Ops {
		hash(h, &o.Ops[i])
	}
}

// equal compares two operations but for their ranks.
func equal(a, b *workload.Op) bool {
	return a.ID == b.ID && a.Kind == b.Kind && a.Name == b.Name && a.Stream == b.Stream &&
		a.Nanos == b.Nanos && a.MaxNanos == b.MaxNanos && a.Comm == b.Comm && a.Func == b.Func && a.Count == b.Count &&
		a.Type == b.Type && a.RedOp == b.RedOp && a.Root == b.Root && a.Peer == b.Peer && a.Relative == b.Relative &&
		slices.Equal(a.After, b.After) &&
		slices.EqualFunc(a.Ops, b.Ops, func(x, y workload.Op) bool { return equal(&x, &y) })
}

// OfRank yields the operations of a rank, in order. They name no ranks, each names its communicator, and peers are not
// relative. After an error there are no more.
func OfRank(ix *workload.Index, rank int) iter.Seq2[workload.Op, error] {
	return func(yield func(workload.Op, error) bool) {
		for i, o := range ix.OfRank(rank) {
			own, err := asCalled(ix, *o, rank)
			if err != nil {
				err = fmt.Errorf("operation %d: %w", i+1, err)
			}
			if !yield(own, err) || err != nil {
				return
			}
		}
	}
}

// asCalled is an operation as a rank calls it.
func asCalled(ix *workload.Index, o workload.Op, rank int) (workload.Op, error) {
	o.Ranks = nil
	o.After = slices.Clone(o.After)
	o.Ops = slices.Clone(o.Ops)
	for i, inner := range o.Ops {
		var err error
		if o.Ops[i], err = asCalled(ix, inner, rank); err != nil {
			return o, err
		}
	}
	if o.Kind != workload.Coll && o.Kind != workload.Send && o.Kind != workload.Recv {
		return o, nil
	}
	c, at := ix.CommOf(o.Comm, rank)
	if c == nil {
		return o, fmt.Errorf("rank %d is in no communicator %q", rank, o.Comm)
	}
	o.Comm = c.Name
	if o.Relative {
		o.Peer, o.Relative = o.PeerOf(at, len(c.Ranks)), false
	}
	return o, nil
}

// Comms are the communicators of a workload: the world if it names none.
func Comms(w *workload.Workload) []workload.Comm {
	if len(w.Head.Comms) > 0 {
		return w.Head.Comms
	}
	return []workload.Comm{{Name: workload.World, Ranks: All(w.Head.Ranks)}}
}
