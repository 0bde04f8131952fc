// SPDX-License-Identifier: Apache-2.0

package chart

import "testing"

// Both axes have the powers of ten around all values.
func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		points    []Point
		low, high float64
	}{
		{[]Point{{20, 30}, {300, 5000}}, 10, 10000},
		{[]Point{{0.5, 100}}, 0.1, 100},
		{[]Point{{10, 10}}, 10, 100},
	} {
		s := Scatter{Groups: []Line{{Name: "empty"}, {Points: tc.points}}}
		if low, high, ok := s.span(); !ok || low != tc.low || high != tc.high {
			t.Errorf("%v: %v to %v, want %v to %v", tc.points, low, high, tc.low, tc.high)
		}
	}
}
