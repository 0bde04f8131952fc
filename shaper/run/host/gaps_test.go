// SPDX-License-Identifier: Apache-2.0

package host

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// gapsOf is a histogram of these gaps in ns, one per bucket so that it is exact.
func gapsOf(lengths ...float64) *gaps {
	g := &gaps{}
	for i, l := range lengths {
		g.count[i]++
		g.total[i] += l
		g.max = max(g.max, time.Duration(l))
	}
	return g
}

func TestDelay(t *testing.T) {
	for _, c := range []struct {
		name string
		gaps *gaps
		q    float64
		want time.Duration
	}{
		{"nothing measured", gapsOf(), 0.99, 0},
		{"half of one gap", gapsOf(1000), 0.5, 500},
		{"one in a hundred of one gap", gapsOf(1000), 0.99, 990},
		{"a long gap is most of the time", gapsOf(10, 10, 10, 970), 0.5, 470},
		{"though polls were often prompt", gapsOf(1, 1, 1, 1, 1, 995), 0.99, 985},
		{"two equal gaps", gapsOf(500, 500), 0.5, 250},
	} {
		if got := c.gaps.delay(c.q); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// At the quantile q, the time that is further from the next poll is 1-q of all time, for any gaps.
func TestDelayIsTheQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.Float64Range(1, 1e6), 1, buckets).Draw(t, "gaps")
		slices.Sort(lengths)
		q := rapid.Float64Range(0.01, 0.999).Draw(t, "q")
		g := gapsOf(lengths...)
		x := float64(g.delay(q))
		all, beyond := 0.0, 0.0
		for _, l := range lengths {
			all += l
			beyond += math.Max(l-x, 0)
		}
		// delay is in whole ns, and beyond changes by the number of gaps per ns.
		if want := (1 - q) * all; math.Abs(beyond-want) > float64(len(lengths))+1e-6*all {
			t.Fatalf("further than %v ns is %v of %v ns, want %v", x, beyond, all, want)
		}
	})
}

func TestMixedWeighsByTimeNotByNumber(t *testing.T) {
	quiet, busy := gapsOf(10, 10, 10, 10), gapsOf(0, 0, 0, 0, 1000)
	m := mixed(quiet, busy, 0.25)
	if got := m.total[4]; math.Abs(got-0.25) > 1e-9 {
		t.Errorf("the busy part is %v of the time, want 0.25", got)
	}
	if got := m.sum(); math.Abs(got-1) > 1e-9 {
		t.Errorf("all time is %v, want 1", got)
	}
	if m.max != 1000 {
		t.Errorf("the longest gap is %v, want 1000 ns", m.max)
	}
}

func TestDelayGrowsWithTheLoad(t *testing.T) {
	h := Host{Rate: 1e9, quiet: *gapsOf(100), busy: *gapsOf(0, 20_000)}
	last := time.Duration(-1)
	for _, rate := range []float64{0, 1e6, 1e7, 1e8, 5e8, 1e9, 1e12} {
		d := h.Delay(0.99, rate)
		if d < last {
			t.Errorf("at %g B/s: %v, less than at a lower rate (%v)", rate, d, last)
		}
		last = d
	}
	if got := h.Delay(0.99, 0); got != 99 {
		t.Errorf("without load: %v, want 99 ns", got)
	}
	if got := h.Delay(0.99, 1e12); got != 19_800 {
		t.Errorf("with all of the load: %v, want 19.8 us", got)
	}
}
