// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// However items are pushed and popped, the one that comes first is always the least.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := New(func(a, b int) bool { return a < b })
		var want []int
		for range rapid.IntRange(0, 40).Draw(t, "steps") {
			if len(want) == 0 || rapid.Bool().Draw(t, "push") {
				x := rapid.IntRange(0, 9).Draw(t, "item")
				q.Push(x)
				want = append(want, x)
				slices.Sort(want)
			} else {
				first := q.First()
				if got := q.Pop(); got != want[0] || first != got {
					t.Fatalf("%d is first and %d popped, want %d", first, got, want[0])
				}
				want = want[1:]
			}
			if q.Len() != len(want) {
				t.Fatalf("%d items, want %d", q.Len(), len(want))
			}
		}
	})
}

// Each number comes behind what it depends on, and is the least that could be next; what is stuck depends on what is
// stuck.
func TestDependencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "numbers")
		after := make([][]int, n)
		for i := range after {
			after[i] = rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, min(n, 2), rapid.ID[int]).Draw(t, "after")
		}
		less := func(a, b int) bool { return a%3 < b%3 || a%3 == b%3 && a < b }
		order, stuck := Order(after, less)
		done := map[int]bool{}
		ready := func(i int) bool {
			return !done[i] && !slices.ContainsFunc(after[i], func(d int) bool { return !done[d] })
		}
		for _, i := range order {
			for j := range n {
				if ready(j) && less(j, i) {
					t.Fatalf("%d comes before %d in %v", i, j, order)
				}
			}
			if !ready(i) {
				t.Fatalf("%d comes before what it depends on, %v, in %v", i, after[i], order)
			}
			done[i] = true
		}
		if !slices.IsSorted(stuck) || len(order)+len(stuck) != n || slices.ContainsFunc(stuck, ready) {
			t.Fatalf("%v are in order and %v are stuck, of %d", order, stuck, n)
		}
	})
}
