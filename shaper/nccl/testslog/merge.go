// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"cmp"
	"math"
	"slices"
)

// merge joins tables if each goes on where the one before ended: a script may start a program for each size. The
// sizes rise, and nothing says that they are of different collectives.
func merge(tests []Test) []Test {
	var all []Test
	for _, t := range tests {
		if n := len(all); n > 0 && all[n-1].goesOn(&t) {
			all[n-1].take(&t)
			continue
		}
		all = append(all, t)
	}
	return all
}

// take adds the rows of another table to t, and what else was in it.
func (t *Test) take(o *Test) {
	t.Rows, t.Cut, t.Odd = append(t.Rows, o.Rows...), append(t.Cut, o.Cut...), append(t.Odd, o.Odd...)
	t.OutOfBounds += o.OutOfBounds
}

func (t *Test) goesOn(next *Test) bool {
	last, first := t.Rows[len(t.Rows)-1], next.Rows[0]
	same := t.Name == next.Name && t.Ranks == next.Ranks && t.Iters == next.Iters && t.Nodes == next.Nodes &&
		t.Assumed == next.Assumed && t.CPUTime == next.CPUTime && t.Programs == next.Programs &&
		last.Type == first.Type && (last.Root < 0) == (first.Root < 0) && slices.Equal(t.Ops(), next.Ops())
	if !same || first.Size <= last.Size ||
		!slices.IsSortedFunc(next.Rows, func(a, b Row) int { return cmp.Compare(a.Size, b.Size) }) {
		return false
	}
	return t.Name != "" || math.Abs(last.Ratio()-first.Ratio()) < 0.03 || math.IsNaN(last.Ratio()-first.Ratio())
}

// Ratio is the ratio of busbw to algbw, which tells collectives apart; NaN if they have too few digits.
func (r *Row) Ratio() float64 {
	const precise = 1.0 // GB/s: two decimals are 1 % at most
	if r.OutOfPlace.AlgBW < precise {
		return math.NaN()
	}
	return r.OutOfPlace.BusBW / r.OutOfPlace.AlgBW
}

// Ops are the different operators, in the order of the rows.
func (t *Test) Ops() (ops []string) {
	for _, r := range t.Rows {
		if !slices.Contains(ops, r.Op) {
			ops = append(ops, r.Op)
		}
	}
	return ops
}
