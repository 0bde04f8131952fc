// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// hostOf is a host that copies at rate and polls within gap ns, loaded or not.
func hostOf(rate, gap float64) Host {
	return Host{Threads: 4, CPUs: 2, Rate: rate, quiet: *gapsOf(gap), busy: *gapsOf(gap)}
}

func TestScale(t *testing.T) {
	us := time.Microsecond
	for _, c := range []struct {
		name   string
		host   Host
		demand Demand
		k      int
		reason string
	}{
		{"enough of all", hostOf(10e9, 1000), Demand{1e9, 30 * us}, 1, "4 busy threads on 2 cores copy 10 GB/s each"},
		{"exactly twice the rate", hostOf(2e9, 100), Demand{1e9, 30 * us}, 1, ""},
		{"just under twice the rate", hostOf(1.999e9, 100), Demand{1e9, 30 * us}, 2,
			"at time scale 1, each of 4 busy threads on 2 cores copies 2 GB/s, needed is at least 2 GB/s"},
		{"a fast fabric", hostOf(3e9, 100), Demand{47e9, us}, 32, "needed is at least 5.88 GB/s"},
		{"slow polls against 5 us", hostOf(1e12, 10_000), Demand{1e6, us}, 4,
			"poll 9.9µs late (p99), needed is at most 5µs"},
		{"slow polls against 5 % of a long path", hostOf(1e12, 10_000), Demand{1e6, 28 * time.Millisecond}, 1, ""},
		{"nothing is asked", hostOf(1, 100), Demand{}, 1, ""},
	} {
		k, reason, err := Scale(c.host, c.demand, VerdictLimits())
		if err != nil || k != c.k || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: got %d, %q, %v; want %d, %q", c.name, k, reason, err, c.k, c.reason)
		}
	}
}

func TestScaleSaysWhatTheHostLacks(t *testing.T) {
	for _, c := range []struct {
		host Host
		want string
	}{
		{hostOf(0, 100), "too little memory bandwidth even at time scale 1024"},
		{hostOf(1e6, 100), "too little memory bandwidth even at time scale 1024"},
		{hostOf(1e12, 1e9), "too few cores, or other work on them, even at time scale 1024"},
	} {
		if k, _, err := Scale(c.host, Demand{47e9, time.Microsecond}, VerdictLimits()); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("got %d, %v; want an error with %q", k, err, c.want)
		}
	}
}

func TestAHostWithoutProcessorCarriesNothing(t *testing.T) {
	if rate := LargestRate(hostOf(0, 100), time.Second, VerdictLimits()); rate != 0 {
		t.Errorf("%g B/s", rate)
	}
}

func drawHost(t *rapid.T) Host {
	h := hostOf(rapid.Float64Range(1e7, 1e11).Draw(t, "rate"), rapid.Float64Range(50, 1e6).Draw(t, "gap"))
	h.busy = *gapsOf(0, rapid.Float64Range(50, 1e7).Draw(t, "gap under load"))
	return h
}

func TestScaleIsTheSmallestThatWillDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHost(t)
		d := Demand{rapid.Float64Range(0, 2e11).Draw(t, "asked"), time.Duration(rapid.Int64Range(0, 1e8).Draw(t, "T"))}
		k, _, err := Scale(h, d, VerdictLimits())
		good := func(k int) bool {
			slow, late := h.lacks(k, d, VerdictLimits())
			return slow == "" && late == ""
		}
		switch {
		case err != nil && good(MaxScale):
			t.Fatalf("refused, although %d will do", MaxScale)
		case err == nil && (k < 1 || k > MaxScale || k&(k-1) != 0 || !good(k)):
			t.Fatalf("got %d, which will not do", k)
		case err == nil && k > 1 && good(k/2):
			t.Fatalf("got %d, although %d will do", k, k/2)
		}
	})
}

func TestLargestRateIsGoodAtScaleOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHost(t)
		T := time.Duration(rapid.Int64Range(0, 1e8).Draw(t, "T"))
		scale := func(rate float64) int {
			k, _, err := Scale(h, Demand{rate, T}, VerdictLimits())
			if err != nil {
				return 2 * MaxScale
			}
			return k
		}
		rate := LargestRate(h, T, VerdictLimits())
		if rate == 0 {
			if k := scale(1); k == 1 {
				t.Fatal("no rate, although a byte per second is good at time scale 1")
			}
			return
		}
		if k := scale(rate); k != 1 {
			t.Fatalf("%g B/s needs time scale %d", rate, k)
		}
		if k := scale(rate * 1.01); k == 1 && rate < h.Rate/margin/1.002 {
			t.Fatalf("%g B/s, although 1 %% more is good too", rate)
		}
	})
}

// On the kernel datapath the shaper decides, not the rate at which ranks copy.
func TestKernelScale(t *testing.T) {
	for _, tc := range []struct {
		name    string
		d       Demand
		latency time.Duration
		k       int
		says    string
	}{
		{"a WAN", Demand{Rate: 12e6, T: 20 * time.Millisecond}, 20 * time.Millisecond, 1, "carries it"},
		{"large messages over 1 Gb/s", Demand{Rate: 118e6, T: 580 * time.Microsecond}, 25 * time.Microsecond, 32,
			"late"},
		{"small messages", Demand{Rate: 118e6, T: 25 * time.Microsecond}, 25 * time.Microsecond, 128, "late"},
		{"a latency below the floor", Demand{Rate: 118e6, T: 20 * time.Millisecond}, time.Microsecond, 256, "late"},
		{"10 Gb/s far away", Demand{Rate: 1.2e9, T: 20 * time.Millisecond}, 20 * time.Millisecond, 16,
			"needed is twice"},
		{"400 Gb/s", Demand{Rate: 49e9, T: 2 * time.Microsecond}, 2 * time.Microsecond, 512, "needed is twice"},
	} {
		k, reason, err := KernelScale(tc.d, tc.latency, VerdictLimits())
		if err != nil || k != tc.k || !strings.Contains(reason, tc.says) {
			t.Errorf("%s: time scale %d because %q, %v; want %d", tc.name, k, reason, err, tc.k)
		}
	}
	if k, _, err := KernelScale(Demand{Rate: 1e12, T: time.Microsecond}, time.Microsecond,
		VerdictLimits()); err == nil {
		t.Errorf("1 TB/s at time scale %d", k)
	}
}
