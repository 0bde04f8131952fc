// SPDX-License-Identifier: Apache-2.0

package play

import (
	"math"
	"math/rand/v2"
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
		for range 2 {
			p := &plan{}
			var s []bench.Span
			for range rng.IntN(30) {
				f := funcs[rng.IntN(3)]
				it := item{op: &workload.Op{Kind: workload.Calc}}
				if f != "" {
					it = item{op: &workload.Op{Kind: workload.Coll}, calls: []call{{what: Call{Kind: workload.Coll, Func: f}}}}
				}
				from := rng.Int64N(300)
				p.items, s = append(p.items, it), append(s, bench.Span{Ready: from, End: from + rng.Int64N(50)})
			}
			plans, spans = append(plans, p), append(spans, s)
		}
		var steps []Step
		for range 1 + rng.IntN(8) {
			steps = append(steps, Step{Time: time.Duration(rng.IntN(60)), Slowest: rng.IntN(2)})
		}
		want := map[string]float64{}
		now := int64(0)
		for _, s := range steps {
			for end := now + int64(s.Time); now < end; now++ {
				addInstant(want, plans[s.Slowest], spans[s.Slowest], now)
			}
		}
		got := map[string]float64{}
		for _, x := range compose(plans, spans, steps, 1) {
			got[x.What] = float64(x.Time)
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

// addInstant adds the ns from now on to what runs in it.
func addInstant(sums map[string]float64, p *plan, spans []bench.Span, now int64) {
	running, calls := map[string]float64{}, 0.0
	for i, it := range p.items {
		if spans[i].Ready <= now && now < spans[i].End {
			if it.op.Kind == workload.Calc {
				sums[computation]++
				return
			}
			running[string(it.calls[0].what.Func)]++
			calls++
		}
	}
	if calls == 0 {
		sums[idle]++
	}
	for what, n := range running {
		sums[what] += n / calls
	}
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
		compose([]*plan{p}, [][]bench.Span{s}, steps, 1)
	}
}
