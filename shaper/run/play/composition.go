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
	What string // computation, the name of a function, or idle
	Time time.Duration
}

// What a Share can be, besides the name of a function.
const (
	computation = "computation"
	idle        = "idle"
)

// edge is the begin or the end of an operation.
type edge struct {
	at    int64
	what  string
	begin bool
}

// compose divides the time of the steps, each on its slowest rank. While a rank computes, nothing else counts. While it
// is in several calls at once, each has an equal part of the time. Communication includes waiting for other ranks.
func compose(plans []*plan, spans [][]bench.Span, steps []Step, scale float64) []Share {
	sums := map[string]float64{} // ns of the clock
	order := []string{computation}
	begin := 0.0
	ranks := map[int]*divider{}
	for _, s := range steps {
		end := begin + float64(s.Time)*scale
		if ranks[s.Slowest] == nil {
			ranks[s.Slowest] = &divider{edges: edgesOf(plans[s.Slowest], spans[s.Slowest]), active: map[string]int{}}
		}
		for _, what := range ranks[s.Slowest].divide(int64(begin), int64(end), sums) {
			if !slices.Contains(order, what) {
				order = append(order, what)
			}
		}
		begin = end
	}
	var out []Share
	for _, what := range append(order, idle) {
		if t := time.Duration(sums[what] / scale); t > 0 {
			out = append(out, Share{What: what, Time: t})
		}
	}
	return out
}

// edgesOf are the edges of a rank's operations in the order of their times.
func edgesOf(p *plan, spans []bench.Span) (out []edge) {
	for i := range p.items {
		it := &p.items[i]
		what := computation
		switch {
		case it.op.Kind == workload.Wait || spans[i].End <= spans[i].Ready:
			continue
		case it.op.Kind != workload.Calc && it.calls[0].what.Kind == workload.Coll:
			what = string(it.calls[0].what.Func)
		case it.op.Kind != workload.Calc:
			what = sendRecv
		}
		out = append(out, edge{spans[i].Ready, what, true}, edge{spans[i].End, what, false})
	}
	slices.SortStableFunc(out, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	return out
}

// divider divides the time of one rank, from its beginning on.
type divider struct {
	edges  []edge
	next   int            // edge
	active map[string]int // operations that run
	calls  int            // of them, those that are no computation
}

// divide adds the times between begin and end to sums, and returns the functions that have some. The windows of a divider
// follow each other.
func (d *divider) divide(begin, end int64, sums map[string]float64) (found []string) {
	now := begin
	for ; d.next < len(d.edges) && d.edges[d.next].at < end; d.next++ {
		e := &d.edges[d.next]
		d.add(float64(e.at-now), sums)
		now = max(now, e.at)
		n := 1
		if !e.begin {
			n = -1
		}
		if d.active[e.what] += n; e.what != computation {
			d.calls += n
			found = append(found, e.what)
		}
	}
	d.add(float64(end-now), sums)
	slices.Sort(found)
	return slices.Compact(found)
}

// add adds a time in which the same operations run. One that is not positive lies before the window.
func (d *divider) add(took float64, sums map[string]float64) {
	switch {
	case took <= 0:
	case d.active[computation] > 0:
		sums[computation] += took
	case d.calls == 0:
		sums[idle] += took
	default:
		for what, n := range d.active {
			if n > 0 {
				sums[what] += took * float64(n) / float64(d.calls)
			}
		}
	}
}
