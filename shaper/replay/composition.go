// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/bench"
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
	edges := map[int][]edge{}
	for _, s := range steps {
		end := begin + float64(s.Time)*scale
		if edges[s.Slowest] == nil {
			edges[s.Slowest] = edgesOf(plans[s.Slowest], spans[s.Slowest])
		}
		for _, what := range sweep(edges[s.Slowest], int64(begin), int64(end), sums) {
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

// sweep adds the times between begin and end to sums, and returns the functions that have some.
func sweep(edges []edge, begin, end int64, sums map[string]float64) (found []string) {
	active := map[string]int{} // operations that run
	calls := 0                 // of them, those that are no computation
	now := begin
	add := func(until int64) {
		until = min(until, end)
		if until <= now {
			return
		}
		took := float64(until - now)
		now = until
		switch {
		case active[computation] > 0:
			sums[computation] += took
		case calls == 0:
			sums[idle] += took
		default:
			for what, n := range active {
				if n > 0 {
					sums[what] += took * float64(n) / float64(calls)
				}
			}
		}
	}
	for _, e := range edges {
		if e.at >= end {
			break
		}
		add(e.at)
		n := 1
		if !e.begin {
			n = -1
		}
		if active[e.what] += n; e.what != computation {
			calls += n
			found = append(found, e.what)
		}
	}
	add(end)
	slices.Sort(found)
	return slices.Compact(found)
}
