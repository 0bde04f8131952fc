// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// bucketOf tells which all-reduces may be one call.
type bucketOf struct {
	ranks, comm, stream, kind, redOp string
}

// open is an all-reduce to which others are added.
type open struct {
	key  bucketOf
	last workload.Op // with the ID and place of the last one that was added
	at   int         // the place of the last one
	ids  []int       // of all of them
	rank workload.Ranks
}

// renaming is the id that an all-reduce of these ranks has now.
type renaming struct {
	ranks workload.Ranks
	id    int
}

// bucketer puts all-reduces together.
type bucketer struct {
	ix   *workload.Index
	cap  int64
	open []*open         // in the order of their first all-reduces
	of   map[int][]*open // by rank
	// became are, by the id of an all-reduce, the calls of which it is a part now.
	became map[int][]renaming
	// at are the merged all-reduces by the place of the last one, and gone the places of the others.
	at   map[int]workload.Op
	gone map[int]bool
}

// bucket returns the operations with all-reduces put together: all-reduces of the same ranks, communicator, stream and
// type that follow each other. Another operation of one of the ranks ends a bucket if it is on the same stream or
// communicator, waits for one of the all-reduces, is a wait or ends a step.
func bucket(ix *workload.Index, limit int64) ([]workload.Op, error) {
	b := &bucketer{ix: ix, cap: limit, of: map[int][]*open{}, became: map[int][]renaming{}, at: map[int]workload.Op{},
		gone: map[int]bool{}}
	ops := ix.Workload.Ops
	for i := range ops {
		b.op(i, &ops[i])
	}
	for len(b.open) > 0 {
		b.close(b.open[0])
	}
	var out []workload.Op
	for i := range ops {
		if b.gone[i] {
			continue
		}
		o, merged := b.at[i]
		if !merged {
			o = ops[i]
		}
		var err error
		if o.After, err = b.renamed(ix.RanksOf(&o), o.After); err != nil {
			return nil, &workload.LineError{Line: workload.Line(i), Err: err}
		}
		out = append(out, o)
	}
	return out, nil
}

// op looks at the next operation.
func (b *bucketer) op(i int, o *workload.Op) {
	ranks := b.ix.RanksOf(o)
	key := bucketOf{ranks.String(), o.Comm, o.StreamName(), o.Type, o.RedOp}
	isAllReduce := o.Kind == workload.Coll && o.Func == workload.AllReduce
	var mine *open
	for _, rank := range ranks {
		for _, k := range slices.Clone(b.of[rank]) {
			switch {
			case isAllReduce && k.key == key && !waitsFor(o, k):
				mine = k
			case ends(o, k):
				b.close(k)
			}
		}
	}
	if !isAllReduce {
		return
	}
	if mine == nil {
		mine = &open{key: key, last: *o, at: i, rank: ranks}
		b.open = append(b.open, mine)
		for _, rank := range ranks {
			b.of[rank] = append(b.of[rank], mine)
		}
	} else {
		mine.add(b, i, o)
	}
	if o.ID != 0 {
		mine.ids = append(mine.ids, o.ID)
	}
	if mine.last.Bytes(1) >= b.cap {
		b.close(mine)
	}
}

// add puts another all-reduce into a bucket. The call is made where the last one was, when all of them are ready.
func (k *open) add(b *bucketer, i int, o *workload.Op) {
	b.gone[k.at] = true
	count, after, id := k.last.Count, k.last.After, k.last.ID
	k.last, k.at = *o, i
	k.last.Count += count
	k.last.After = slices.Clone(after)
	for _, a := range o.After {
		if !slices.Contains(k.last.After, a) {
			k.last.After = append(k.last.After, a)
		}
	}
	if k.last.ID == 0 {
		k.last.ID = id
	}
}

// ends says whether an operation must come after a bucket as it is.
func ends(o *workload.Op, k *open) bool {
	if !o.Kind.HasStream() || o.StreamName() == k.key.stream || waitsFor(o, k) {
		return true
	}
	for part := range o.Parts() {
		if part.Comm == k.key.comm {
			return true
		}
	}
	return false
}

func waitsFor(o *workload.Op, k *open) bool {
	return slices.ContainsFunc(o.After, func(id int) bool { return slices.Contains(k.ids, id) })
}

// close ends a bucket.
func (b *bucketer) close(k *open) {
	b.at[k.at] = k.last
	b.open = slices.DeleteFunc(b.open, func(x *open) bool { return x == k })
	for _, rank := range k.rank {
		b.of[rank] = slices.DeleteFunc(b.of[rank], func(x *open) bool { return x == k })
	}
	for _, id := range k.ids {
		if id != k.last.ID {
			b.became[id] = append(b.became[id], renaming{k.rank, k.last.ID})
		}
	}
}

// renamed are the ids of After of an operation, with the ids of all-reduces that are a part of another call replaced.
func (b *bucketer) renamed(ranks workload.Ranks, after []int) ([]int, error) {
	if len(b.became) == 0 {
		return after, nil
	}
	var out []int
	for _, id := range after {
		for _, now := range b.became[id] {
			if !slices.Contains(now.ranks, ranks[0]) {
				continue
			}
			if !slices.Equal(now.ranks, ranks) &&
				slices.ContainsFunc(ranks, func(r int) bool { return !slices.Contains(now.ranks, r) }) {
				return nil, fmt.Errorf(
					"after %d: that is a part of a bucket for some of these ranks only: write a line for each", id)
			}
			id = now.id
			break
		}
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out, nil
}
