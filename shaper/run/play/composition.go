// SPDX-License-Identifier: Apache-2.0

package play

import (
	"cmp"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Share is a part of the steps: computation, the communication of one function that no computation hid, or neither.
type Share struct {
	What string // Computation, the name of a function, or Idle
	Time time.Duration
	// Waiting is the part of Time in which the call waited for a rank of it, or of another call of its group, that was
	// not ready. The rest begins when the last of them was. In it, calls of the group whose ranks were ready may have
	// moved data.
	Waiting time.Duration
}

// What a Share can be, besides the name of a function.
const (
	Computation = "computation"
	Idle        = "idle"
)

// part is what an operation does: computation, or a call that waits for other ranks or does not.
type part struct {
	what    string
	waiting bool
}

// edge is the begin or the end of a part of an operation.
type edge struct {
	at    int64
	part  part
	begin bool
}

// compose divides the time of the steps, each on its slowest rank, and sets their Waiting. While a rank computes,
// nothing else counts. While it is in several calls at once, each has an equal part of the time. until is, by rank and
// item, when all ranks were ready that it waited for.
func compose(plans []*plan, spans [][]bench.Span, until [][]int64, steps []Step, scale float64) []Share {
	sums := map[part]float64{} // ns of the clock
	order := []string{Computation}
	begin := 0.0
	ranks := map[int]*divider{}
	for i := range steps {
		s := &steps[i]
		end := begin + float64(s.Time)*scale
		if ranks[s.Slowest] == nil {
			ranks[s.Slowest] = newDivider(plans[s.Slowest], spans[s.Slowest], until[s.Slowest])
		}
		found, waited := ranks[s.Slowest].divide(int64(begin), int64(end), sums)
		for _, what := range found {
			if !slices.Contains(order, what) {
				order = append(order, what)
			}
		}
		s.Waiting = time.Duration(waited / scale)
		begin = end
	}
	var out []Share
	for _, what := range append(order, Idle) {
		waiting, rest := sums[part{what, true}]/scale, sums[part{what, false}]/scale
		if t := time.Duration(waiting + rest); t > 0 {
			out = append(out, Share{What: what, Time: t, Waiting: time.Duration(waiting)})
		}
	}
	return out
}

// newDivider divides the time of a rank's operations. until is, by item, when all ranks were ready that it waited for;
// nil if waiting does not matter.
func newDivider(p *plan, spans []bench.Span, until []int64) *divider {
	var out []edge
	add := func(what string, waiting bool, from, to int64) {
		if from < to {
			out = append(out, edge{from, part{what, waiting}, true}, edge{to, part{what, waiting}, false})
		}
	}
	for i := range p.items {
		it, span := &p.items[i], spans[i]
		switch {
		case it.op.Kind == workload.Wait:
		case it.op.Kind == workload.Calc:
			add(Computation, false, span.Ready, span.End)
		default:
			what := sendRecv
			if it.calls[0].what.Kind == workload.Coll {
				what = string(it.calls[0].what.Func)
			}
			all := span.Ready
			if until != nil {
				all = min(max(until[i], all), span.End)
			}
			add(what, true, span.Ready, all)
			add(what, false, all, span.End)
		}
	}
	slices.SortStableFunc(out, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	return &divider{edges: out, active: map[part]int{}}
}

// divider divides the time of one rank, from its beginning on.
type divider struct {
	edges  []edge
	next   int          // edge
	active map[part]int // that run
	calls  int          // of them, those that are no computation
	hidden int64        // for how long calls and a computation ran at once
}

// divide adds the times between begin and end to sums, and returns the functions that have some, and for how long they
// waited. The windows of a divider follow each other.
func (d *divider) divide(begin, end int64, sums map[part]float64) (found []string, waited float64) {
	now := begin
	for ; d.next < len(d.edges) && d.edges[d.next].at < end; d.next++ {
		e := &d.edges[d.next]
		waited += d.add(float64(e.at-now), sums)
		now = max(now, e.at)
		n := 1
		if !e.begin {
			n = -1
		}
		if d.active[e.part] += n; e.part.what != Computation {
			d.calls += n
			found = append(found, e.part.what)
		}
	}
	waited += d.add(float64(end-now), sums)
	slices.Sort(found)
	return slices.Compact(found), waited
}

// add adds a time in which the same parts run, and returns for how much of it calls waited. A time that is not
// positive lies before the window.
func (d *divider) add(took float64, sums map[part]float64) float64 {
	switch {
	case took <= 0:
	case d.active[part{Computation, false}] > 0:
		if sums[part{Computation, false}] += took; d.calls > 0 {
			d.hidden += int64(took)
		}
	case d.calls == 0:
		sums[part{Idle, false}] += took
	default:
		waiting := 0
		for p, n := range d.active {
			if n == 0 {
				continue
			}
			if sums[p] += took * float64(n) / float64(d.calls); p.waiting {
				waiting += n
			}
		}
		return took * float64(waiting) / float64(d.calls) // not by sums of the parts: a map has no order
	}
	return 0
}
