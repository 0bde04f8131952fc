// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"slices"
	"testing"
)

// A scale is logarithmic if the values ask for it, and has ticks in its range.
func TestAxes(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		log    bool
		ticks  []float64
	}{
		{[]float64{100, 104, 200}, false, []float64{0, 50, 100, 150, 200}},
		{[]float64{3, 40000}, true, []float64{10, 100, 1000, 10000}},
		{[]float64{0.5, 30}, true, []float64{0.5, 1, 2, 5, 10, 20}},
		{[]float64{0, 40000}, false, []float64{0, 10000, 20000, 30000, 40000}},
		{[]float64{0, 0}, false, []float64{0, 0.5, 1}},
		{[]float64{-2, 40000}, false, []float64{0, 10000, 20000, 30000, 40000}},
	} {
		a := valueAxis(tc.values, 0, 100)
		got := a.ticks()
		for i := range got {
			got[i] = number64(got[i])
		}
		if a.log != tc.log || !slices.Equal(got, tc.ticks) {
			t.Errorf("%v: logarithmic %v, ticks %v, want %v, %v", tc.values, a.log, got, tc.log, tc.ticks)
		}
		for _, v := range tc.values {
			if at := a.at(v); at < 0 || at > 100 {
				t.Errorf("%v: %g is at %g", tc.values, v, at)
			}
		}
	}
	for _, tc := range []struct {
		values []float64
		log    bool
	}{
		{[]float64{1, 2, 4, 8}, true}, {[]float64{1, 2, 3, 4}, false}, {[]float64{0, 1, 10, 100}, false},
		{[]float64{400, 100, 10}, true}, {[]float64{7}, false}, {[]float64{7, 7}, false},
	} {
		if a := placeAxis(tc.values, 0, 100); a.log != tc.log {
			t.Errorf("%v: logarithmic %v, want %v", tc.values, a.log, tc.log)
		}
	}
}

// number64 is what a tick says.
func number64(v float64) float64 {
	for _, text := range []float64{0, 0.5, 1, 2, 5, 10, 20, 50, 100, 150, 200, 1000, 10000, 20000, 30000, 40000} {
		if number(v) == number(text) {
			return text
		}
	}
	return v
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.30000000000000004: "0.3", 1234567: "1234570", 2e7: "2e+07", 1e-5: "1e-05",
		0.001: "0.001", 1e6: "1000000"} {
		if got := number(v); got != want {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
}
