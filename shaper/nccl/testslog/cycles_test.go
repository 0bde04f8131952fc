// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"fmt"
	"strings"
	"testing"
)

// With -N the sizes come again and again: a row has the median of its cycles, and the wrong elements of the worst.
func TestCycles(t *testing.T) {
	const columns = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
	row := func(size int, typ string, us, bw, wrong string) string {
		return fmt.Sprintf("%d %d %s sum -1 %s %s %s %s %s %s %s 0\n", size, size/4, typ, us, bw, bw, wrong, us, bw, bw)
	}
	small, large := row(8, "float", "5", "1.00", "0"), row(16, "float", "9", "2.00", "0")
	for _, tc := range []struct {
		name, text string
		rows       string // size, time, bandwidth and wrong elements of each
		cycles     int
	}{
		{"one cycle", small + large, "[8 5µs 1.00 0] [16 9µs 2.00 0]", 0},
		{"three", small + large + row(8, "float", "50", "0.10", "0") + row(16, "float", "10", "1.80", "0") +
			row(8, "float", "6", "0.83", "0") + row(16, "float", "11", "1.64", "0"), "[8 6µs 0.83 0] [16 10µs 1.80 0]", 3},
		{"the last is cut", small + large + row(8, "float", "7", "0.71", "3"), "[8 6µs 0.83 3] [16 9µs 2.00 0]", 2},
		{"of one size", small + row(8, "float", "7", "0.71", "0") + row(8, "float", "8", "0.63", "0"), "[8 7µs 0.71 0]", 3},
		{"of each type", small + small + row(8, "half", "1", "1.00", "0") + row(8, "half", "1", "1.00", "0"),
			"[8 5µs 1.00 0] [8 1µs 1.00 0]", 2},
		{"no cycles", small + large + large + small, "[8 5µs 1.00 0] [16 9µs 2.00 0] [16 9µs 2.00 0] [8 5µs 1.00 0]", 0},
	} {
		log, err := Read(strings.NewReader(columns + tc.text))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		var rows []string
		for _, r := range log.Tests[0].Rows {
			h := r.OutOfPlace
			rows = append(rows, fmt.Sprintf("[%d %v %.2f %d]", r.Size, h.Time, h.AlgBW, h.Wrong))
			if h.Time != r.InPlace.Time {
				t.Errorf("%s: %v in place, %v out of place", tc.name, r.InPlace.Time, h.Time)
			}
		}
		if got := strings.Join(rows, " "); got != tc.rows || log.Tests[0].Cycles != tc.cycles {
			t.Errorf("%s: %d cycles, %s, want %d, %s", tc.name, log.Tests[0].Cycles, got, tc.cycles, tc.rows)
		}
	}
}
