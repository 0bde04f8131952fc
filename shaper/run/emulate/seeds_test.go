// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"strings"
	"testing"
	"time"
)

func TestSeedTimes(t *testing.T) {
	us := time.Microsecond
	for _, tc := range []struct {
		times []time.Duration
		want  string
	}{
		{[]time.Duration{200 * us, 100 * us, 101 * us},
			"4096 bytes with seeds 5 to 7: 100.00 us, 0.04 GB/s (2 seeds, such as 6); 200.00 us, 0.02 GB/s (seed 5): up to 100 % longer"},
		{[]time.Duration{100 * us, 101 * us},
			"4096 bytes with seeds 5 to 6: 100.00 us, 0.04 GB/s (2 seeds, such as 5)"},
		{[]time.Duration{0, 0}, "4096 bytes with seeds 5 to 6: 0.00 us (2 seeds, such as 5)"},
		{[]time.Duration{1 * us, 2 * us, 3 * us, 4 * us, 5 * us, 5 * us},
			"; between these (1 seed); 5.00 us, 0.82 GB/s (2 seeds, such as 9): up to 400 % longer"},
	} {
		s := SeedTimes{Size: 4096, First: 5, Times: tc.times, bytes: 4096}
		if got := s.String(); !strings.HasSuffix(got, tc.want) {
			t.Errorf("%v: %s\nwant %s", tc.times, got, tc.want)
		}
	}
}
