// SPDX-License-Identifier: Apache-2.0

package goal

import "container/heap"

// queue is a priority queue of numbers, the least first.
type queue struct {
	items []int
	less  func(a, b int) bool
}

func (q *queue) Len() int           { return len(q.items) }
func (q *queue) Less(i, j int) bool { return q.less(q.items[i], q.items[j]) }
func (q *queue) Swap(i, j int)      { q.items[i], q.items[j] = q.items[j], q.items[i] }

// Push is for container/heap.
func (q *queue) Push(x any) { q.items = append(q.items, x.(int)) }

// Pop is for container/heap.
func (q *queue) Pop() any {
	last := q.items[len(q.items)-1]
	q.items = q.items[:len(q.items)-1]
	return last
}

func (q *queue) push(i int) { heap.Push(q, i) }
func (q *queue) pop() int   { return heap.Pop(q).(int) }
