// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// sweep is what the rows of one sweep over the sizes have in common.
type sweep struct {
	typ, op string
	root    int
}

// joinCycles makes one row of all rows of the same calls: with -N nccl-tests goes through the sizes of each series
// several times. A time is the median of the cycles. Rows that do not repeat in order stay as they are, and rows of
// several programs, which are of different ranks.
func (t *Test) joinCycles() {
	if t.Programs > 1 {
		return
	}
	var order []sweep
	rows := map[sweep][]Row{}
	for _, r := range t.Rows {
		s := sweep{r.Type, r.Op, r.Root}
		if rows[s] == nil {
			order = append(order, s)
		}
		rows[s] = append(rows[s], r)
	}
	var joined []Row
	cycles := 0
	for _, s := range order {
		sizes := cycleLength(rows[s])
		if sizes == 0 {
			return
		}
		cycles = max(cycles, (len(rows[s])+sizes-1)/sizes)
		for first := range min(sizes, len(rows[s])) {
			var same []Row
			for k := first; k < len(rows[s]); k += sizes {
				same = append(same, rows[s][k])
			}
			joined = append(joined, medianRow(same))
		}
	}
	if cycles > 1 {
		t.Rows, t.Cycles = joined, cycles
	}
}

// cycleLength is how many rows a cycle has: sizes rise in it, and all cycles have the same, of which the last may be
// cut. It is 0 if the rows are not in cycles.
func cycleLength(rows []Row) int {
	n := 1
	for n < len(rows) && rows[n].Size > rows[n-1].Size {
		n++
	}
	for i := n; i < len(rows); i++ {
		if rows[i].Size != rows[i-n].Size || rows[i].Count != rows[i-n].Count {
			return 0
		}
	}
	return n
}

// medianRow is a row with the median times of rows of the same calls. It has a half in place if one of them has.
func medianRow(rows []Row) Row {
	r := rows[0]
	var outOfPlace, inPlace []Half
	for i := range rows {
		outOfPlace = append(outOfPlace, rows[i].OutOfPlace)
		if h := rows[i].InPlace; h != nil {
			inPlace = append(inPlace, *h)
		}
	}
	r.OutOfPlace = medianHalf(outOfPlace)
	if r.InPlace = nil; len(inPlace) > 0 {
		r.InPlace = new(medianHalf(inPlace))
	}
	return r
}

// medianHalf has the median time, the bandwidths at that time, and the wrong elements of the worst cycle.
func medianHalf(halves []Half) Half {
	slices.SortStableFunc(halves, func(a, b Half) int { return cmp.Compare(a.Time, b.Time) })
	var times []time.Duration
	for _, h := range halves {
		times = append(times, h.Time)
	}
	m := halves[(len(halves)-1)/2]
	if at := median(times); at > 0 && at != m.Time {
		share := float64(m.Time) / float64(at)
		m.Time, m.AlgBW, m.BusBW = at, m.AlgBW*share, m.BusBW*share
	}
	for _, h := range halves {
		if h.Wrong == SomeWrong && m.Wrong <= 0 || h.Wrong > m.Wrong && m.Wrong != SomeWrong {
			m.Wrong = h.Wrong
		}
	}
	return m
}

// CyclesNote says that times are the medians of so many cycles.
func CyclesNote(cycles int) string {
	return fmt.Sprintf("the log has %d cycles (-N): each time is the median of its cycles", cycles)
}
