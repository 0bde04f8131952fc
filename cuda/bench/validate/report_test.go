// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		size               int64
		expected, emulated time.Duration
		within             bool
	}{
		{16<<20 - 4, 100, 114, true},
		{16<<20 - 4, 100, 116, false},
		{16 << 20, 100, 104, true},
		{16 << 20, 100, 106, false},
		{16 << 20, 100, 94, false},
		{16 << 20, 106, 100, true}, // what was emulated counts
		{16 << 20, 106, 0, false},  // without a run, what is expected
		{4, 0, 0, false},           // neither
	} {
		l := newLine(Row{Size: tc.size, Time: 100 * time.Microsecond}, tc.expected*time.Microsecond, tc.emulated*time.Microsecond, 1)
		if l.Within != tc.within {
			t.Errorf("%+v: %+v", tc, l)
		}
	}
	r := Report{Lines: []Line{{Within: true}, {Size: 8}}}
	if out := r.Outside(); len(out) != 1 || out[0].Size != 8 {
		t.Errorf("outside: %+v", out)
	}
}
