// SPDX-License-Identifier: Apache-2.0

package members

import (
	"fmt"
	"iter"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// entry is a list of calls of a rank on a communicator.
type entry struct {
	comm  string
	calls []record
}

// builder makes the operations of the ranks.
type builder struct {
	job      *Job
	registry perrank.Registry
	lists    [][]entry // by rank
	jumps    int       // gaps between calls that are longer than a computation may be
}

// add adds the calls of a communicator. alone says that the calls of one rank stand for all.
func (b *builder) add(file, name string, c []*Member, alone bool) error {
	j := b.job
	size := c[0].Size
	if alone {
		if size != j.world {
			return fmt.Errorf(
				"%s: which ranks are in communicator %s of %d ranks is not known: give the files of all ranks", file,
				c[0].Comm, size)
		}
		for _, m := range c {
			if why := j.unknown(m); why != "" {
				return fmt.Errorf("%s: communicator %s: %s: give the files of one job", file, m.Comm, why)
			}
		}
		if err := j.Limit.List(size); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		name = b.registry.Add(name, perrank.All(size))
	} else {
		ranks, why := j.ranksOf(c)
		if why != "" {
			calls := 0
			for _, m := range c {
				calls += len(m.calls)
			}
			j.Notes = append(j.Notes, fmt.Sprintf("communicator %s of %d ranks: %s left out: %s", c[0].Comm, size,
				units.Count(calls, "record"), why))
			return nil
		}
		name = b.registry.Add(name, ranks)
		if n := match(c); n > 0 {
			j.Notes = append(j.Notes,
				fmt.Sprintf("%s (sends or receives) on communicator %s: left out, the other rank did not record it",
					units.Count(n, "message"), name))
		}
	}
	ends, all := prefix(c)
	begin := collectives(c[0].calls[:ends[0]])
	if all {
		j.Notes = append(j.Notes, gaps(name, begin)...)
		for _, m := range c {
			b.list(m, name, kept(m.calls))
		}
		return nil
	}
	rests := make([]rest, len(c))
	for i, m := range c {
		rests[i] = rest{m, slices.Clone(m.calls[ends[i]:])}
	}
	numbers := map[workload.Func]int64{}
	for k := range begin {
		numbers[k.f] = k.seq
	}
	keys, ops, err := order(rests, numbers)
	if err == nil {
		err = j.Limit.AddSmall(len(c) * len(keys)) // a rank gets the calls that only others have recorded
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	j.Notes = append(j.Notes, gaps(name, both(begin, slices.Values(keys)))...)
	added := 0
	for i, m := range c {
		calls, more := merged(kept(m.calls[:ends[i]]), rests[i], keys, ops)
		added += more
		b.list(m, name, calls)
	}
	if added > 0 {
		j.Notes = append(j.Notes,
			fmt.Sprintf("communicator %s: %s on a rank that did not record it: taken from the other ranks", name,
				units.Count(added, "call")))
	}
	return nil
}

// list takes the calls of a member over to its rank.
func (b *builder) list(m *Member, comm string, calls []record) {
	m.calls = nil
	rank := b.job.rankOf(m)
	b.lists[rank] = append(b.lists[rank], entry{comm, calls})
}

// both yields the keys of one, then the keys of the other.
func both(a, b iter.Seq[key]) iter.Seq[key] {
	return func(yield func(key) bool) {
		for _, keys := range []iter.Seq[key]{a, b} {
			for k := range keys {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// unknown says why the rank of a member in the job is not known; "" if it is.
func (j *Job) unknown(m *Member) string {
	switch {
	case j.rankOf(m) >= 0:
		return ""
	case len(j.ranks[m.Process]) == 0:
		return fmt.Sprintf("process %s is not in the communicator of all ranks", m.Process)
	}
	return fmt.Sprintf("process %s has several ranks", m.Process)
}

// ranksOf are the ranks of a communicator in the job, or why they are not known.
func (j *Job) ranksOf(c []*Member) (workload.Ranks, string) {
	if len(c) != c[0].Size {
		return nil, fmt.Sprintf("only %s of it recorded a call", units.Count(len(c), "rank"))
	}
	ranks := make(workload.Ranks, len(c))
	seen := map[int]bool{}
	for i, m := range c {
		if why := j.unknown(m); why != "" {
			return nil, why
		}
		r := j.rankOf(m)
		if seen[r] {
			return nil, fmt.Sprintf("rank %d of the job is in it twice", r)
		}
		seen[r] = true
		ranks[i] = r
	}
	return ranks, ""
}

// operations adds the operations of all ranks to a workload, or of the only rank that was recorded. It makes them one
// by one, so that the lists of all ranks are never in memory.
func (b *builder) operations(w *workload.Workload, alone bool) error {
	next := make([]func() (workload.Op, bool), len(b.lists))
	longest := 0
	for r, list := range b.lists {
		if alone && len(list) == 0 {
			continue
		}
		calls := 0
		for _, e := range list {
			calls += len(e.calls)
		}
		longest = max(longest, calls)
		var stop func()
		next[r], stop = iter.Pull(b.rank(list))
		defer stop()
	}
	row, joiner := make([][]workload.Op, len(b.lists)), perrank.NewJoiner(w.Head.Comms)
	w.Ops = make([]workload.Op, 0, b.job.Limit.Room(longest)+1)
	for {
		some := false
		for r, pull := range next {
			row[r] = row[r][:0]
			if pull == nil {
				continue
			}
			if o, ok := pull(); ok {
				row[r] = append(row[r], o)
				some = true
				if alone {
					w.Ops = append(w.Ops, o)
				}
			}
		}
		if !some {
			return nil
		}
		if !alone {
			w.Ops = append(w.Ops, joiner.Join(row)...)
		}
		if err := b.job.Limit.Check(len(w.Ops)); err != nil {
			return err
		}
	}
}

// rank yields the operations of a rank: its calls on all communicators in the order of their times, with the time
// between two as a computation if it is known.
func (b *builder) rank(list []entry) iter.Seq[workload.Op] {
	return func(yield func(workload.Op) bool) {
		w := &writer{timed: b.job.Timed, yield: yield, jumps: &b.jumps}
		groups := perrank.GroupedCalls[int64, group]{Add: w.add}
		at := make([]int, len(list))
		for !w.stopped {
			best := -1
			for i, e := range list {
				if at[i] < len(e.calls) && (best < 0 || e.calls[at[i]].at < list[best].calls[at[best]].at) {
					best = i
				}
			}
			if best < 0 {
				break
			}
			c := &list[best].calls[at[best]]
			o := *c.op
			o.Comm = list[best].comm
			groups.Call(c.at, group{c.group, o.Comm}, o)
			at[best]++
		}
		groups.End()
	}
}

// writer writes the operations of a rank.
type writer struct {
	timed    bool
	yield    func(workload.Op) bool
	stopped  bool
	begun    bool
	last     int64
	lastID   int
	lastCalc int
	jumps    *int
}

// group tells groups of sends and receives apart: those of one have one number on one communicator.
type group struct {
	number int32
	comm   string
}

// add adds an operation after the computation since the last call. The clock of a rank begins with its first call.
func (w *writer) add(at int64, o workload.Op) {
	if !w.begun {
		w.begun, w.last = true, at
	}
	if w.timed && at > w.last {
		w.lastID++
		w.lastCalc = w.lastID
		gap := uint64(at) - uint64(w.last)
		if gap > workload.MaxNanos {
			*w.jumps++
			gap = workload.MaxNanos
		}
		w.put(workload.Op{ID: w.lastID, Kind: workload.Calc, Stream: "compute", Nanos: int64(gap)})
		w.last = at
	}
	for part := range o.Parts() {
		o.Stream = "nccl " + part.Comm
	}
	if w.lastCalc > 0 {
		o.After = []int{w.lastCalc}
	}
	w.put(o)
}

func (w *writer) put(o workload.Op) {
	w.stopped = w.stopped || !w.yield(o)
}
