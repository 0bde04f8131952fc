// SPDX-License-Identifier: Apache-2.0

package play

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// The parts of random operations of two ranks are what one finds by looking at each ns.
func TestComposeRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	funcs := []workload.Func{"", workload.AllReduce, workload.AllGather} // "": computation
	for range 200 {
		var plans []*plan
		var spans [][]bench.Span
		var until [][]int64
		for range 2 {
			p := &plan{}
			var s []bench.Span
			var ready []int64 // of all ranks, also before a call and after it
			for range rng.IntN(30) {
				f := funcs[rng.IntN(3)]
				it := item{op: &workload.Op{Kind: workload.Calc}}
				if f != "" {
					it = item{op: &workload.Op{Kind: workload.Coll},
						calls: []call{{what: Call{Kind: workload.Coll, Func: f}}}}
				}
				from := rng.Int64N(300)
				p.items, s = append(p.items, it), append(s, bench.Span{Ready: from, End: from + rng.Int64N(50)})
				ready = append(ready, from-10+rng.Int64N(70))
			}
			plans, spans, until = append(plans, p), append(spans, s), append(until, ready)
		}
		var steps []Step
		for range 1 + rng.IntN(8) {
			steps = append(steps, Step{Time: time.Duration(rng.IntN(60)), Slowest: rng.IntN(2)})
		}
		want := map[string]float64{}
		waited, now := make([]float64, len(steps)), int64(0)
		for i, s := range steps {
			for end := now + int64(s.Time); now < end; now++ {
				waited[i] += addInstant(want, plans[s.Slowest], spans[s.Slowest], until[s.Slowest], now)
			}
		}
		got := map[string]float64{}
		for _, x := range compose(plans, spans, until, steps, 1) {
			got[x.What] = float64(x.Time)
			if x.Waiting > 0 {
				got[x.What+", waiting"] = float64(x.Waiting)
			}
		}
		for i, w := range waited {
			if math.Abs(float64(steps[i].Waiting)-w) > 1 {
				t.Fatalf("step %d waits %v, want %v", i, steps[i].Waiting, w)
			}
		}
		for what, w := range want {
			if math.Abs(got[what]-w) > 1 { // whole ns
				t.Fatalf("%s: %v, want %v", what, got, want)
			}
		}
		if len(got) > len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

// addInstant adds the ns from now on to what runs in it, and returns the part of it that waits.
func addInstant(sums map[string]float64, p *plan, spans []bench.Span, until []int64, now int64) (waited float64) {
	running, calls := map[string]float64{}, 0.0
	for i, it := range p.items {
		if spans[i].Ready <= now && now < spans[i].End {
			if it.op.Kind == workload.Calc {
				sums[Computation]++
				return 0
			}
			what := string(it.calls[0].what.Func)
			running[what]++
			if calls++; now < until[i] {
				running[what+", waiting"]++
			}
		}
	}
	if calls == 0 {
		sums[Idle]++
	}
	for what, n := range running {
		if sums[what] += n / calls; strings.HasSuffix(what, ", waiting") {
			waited += n / calls
		}
	}
	return waited
}

// The work does not grow with the square of the steps.
func BenchmarkCompose(b *testing.B) {
	p := &plan{}
	var s []bench.Span
	var steps []Step
	for i := range int64(10_000) {
		for k := range int64(20) {
			p.items = append(p.items, item{op: &workload.Op{Kind: workload.Calc}})
			s = append(s, bench.Span{Ready: 100*i + 5*k, End: 100*i + 5*k + 3})
		}
		steps = append(steps, Step{Time: 100})
	}
	for b.Loop() {
		compose([]*plan{p}, [][]bench.Span{s}, [][]int64{make([]int64, len(s))}, steps, 1)
	}
}
