// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"fmt"
	"testing"
	"time"
)

// Ten sizes from 1 KiB on: which of them are slower, by the factor or the added time of each.
func TestJudgePoints(t *testing.T) {
	for name, tc := range map[string]struct {
		fault func(i int, model time.Duration) time.Duration
		want  string
	}{
		"healthy, within the interval": {func(_ int, m time.Duration) time.Duration { return m * 12 / 10 }, ".........."},
		"three times at a range": {func(i int, m time.Duration) time.Duration {
			if i >= 4 && i <= 6 {
				return 3 * m
			}
			return m
		}, "....sss..."},
		"a dip": {func(i int, m time.Duration) time.Duration {
			if i == 5 {
				return 3 * m
			}
			return m
		}, ".....d...."},
		"a stall": {func(i int, m time.Duration) time.Duration {
			if i >= 4 && i <= 6 {
				return m + 40*time.Millisecond
			}
			return m
		}, "....xxx..."},
		"a step that is less than the interval": {func(i int, m time.Duration) time.Duration {
			switch {
			case i == 5:
				return m * 138 / 100
			case i == 4 || i == 6:
				return m * 129 / 100
			case i == 3 || i == 7:
				return m * 71 / 100
			}
			return m
		}, "....sss..."},
		"a range with an edge within the interval": {func(i int, m time.Duration) time.Duration {
			switch {
			case i >= 6:
				return m * 16 / 10
			case i == 5:
				return m * 128 / 100
			}
			return m
		}, ".....sssss"},
		"one size a little beyond": {func(i int, m time.Duration) time.Duration {
			if i == 5 {
				return m * 14 / 10
			}
			return m
		}, ".........."},
	} {
		var points []Sample
		for i := range 10 {
			model := 20*time.Microsecond + time.Duration(1<<i)*time.Microsecond
			points = append(points, Sample{Size: 1024 << i, Time: tc.fault(i, model), Model: model, Low: 0.7, High: 1.3,
				Alone: 1.6, Step: 1.5})
		}
		got := ""
		for _, w := range JudgePoints(points) {
			got += map[Word]string{AsExpected: ".", Slower: "s", Dip: "d", Stall: "x"}[w]
		}
		if want := fmt.Sprintf("%.10s", tc.want); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
