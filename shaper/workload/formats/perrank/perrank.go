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

// Splitter gives the operations of one rank after the other, so that never the operations of all ranks are in memory.
type Splitter struct {
	// Comms are the communicators: the world if the workload names none.
	Comms []workload.Comm
	// Index finds them.
	Index Index

	of   *workload.Index
	only string // the name of the communicators, if they have one
}

// NewSplitter checks w and returns its splitter.
func NewSplitter(w *workload.Workload) (*Splitter, error) {
	of, err := w.Index()
	if err != nil {
		return nil, err
	}
	s := &Splitter{Comms: Comms(w), of: of}
	s.Index = NewIndex(s.Comms)
	if len(of.Names) == 1 {
		s.only = of.Names[0]
	}
	return s, nil
}

// Rank yields the operations of a rank, in order. They name no ranks, each names its communicator, and peers are not
// relative. After an error there are no more.
func (s *Splitter) Rank(r int) iter.Seq2[workload.Op, error] {
	return func(yield func(workload.Op, error) bool) {
		for i, o := range s.of.OfRank(r) {
			own, err := s.forRank(*o, r)
			if err != nil {
				err = fmt.Errorf("operation %d: %w", i+1, err)
			}
			if !yield(own, err) || err != nil {
				return
			}
		}
	}
}

// Split returns the operations of each rank of w, as [Splitter] does.
func Split(w *workload.Workload) ([][]workload.Op, error) {
	s, err := NewSplitter(w)
	if err != nil {
		return nil, err
	}
	out := make([][]workload.Op, w.Head.Ranks)
	for r := range out {
		for o, err := range s.Rank(r) {
			if err != nil {
				return nil, err
			}
			out[r] = append(out[r], o)
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
func (s *Splitter) forRank(o workload.Op, r int) (workload.Op, error) {
	o.Ranks = nil
	o.After = slices.Clone(o.After)
	o.Ops = slices.Clone(o.Ops)
	for i, inner := range o.Ops {
		if inner.Comm == "" {
			inner.Comm = o.Comm
		}
		var err error
		if o.Ops[i], err = s.forRank(inner, r); err != nil {
			return o, err
		}
	}
	if !hasComm(o.Kind) {
		return o, nil
	}
	if o.Comm == "" {
		o.Comm = s.only
	}
	c := s.Index.Of(o.Comm, r)
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
