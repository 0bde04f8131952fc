// SPDX-License-Identifier: Apache-2.0

package queue

// Order puts the numbers 0 to len(after)-1 in an order in which each comes behind those that it depends on, after[i],
// and among the items that are ready, the least by less comes first. Numbers that depend on each other in a circle, and
// those behind them, are in stuck instead, in ascending order.
func Order(after [][]int, less func(a, b int) bool) (order, stuck []int) {
	waits := make([]int, len(after))
	followers := make([][]int, len(after))
	ready := New(less)
	for i, all := range after {
		for _, d := range all {
			followers[d] = append(followers[d], i)
		}
		if waits[i] = len(all); waits[i] == 0 {
			ready.Push(i)
		}
	}
	for ready.Len() > 0 {
		i := ready.Pop()
		order = append(order, i)
		for _, f := range followers[i] {
			if waits[f]--; waits[f] == 0 {
				ready.Push(f)
			}
		}
	}
	for i, n := range waits {
		if n > 0 {
			stuck = append(stuck, i)
		}
	}
	return order, stuck
}
