// SPDX-License-Identifier: Apache-2.0

// Package queue is a priority queue.
package queue

// Queue is a heap that gives its items in the order of a function. It reuses its memory: Push and Pop allocate nothing
// once it was as long.
type Queue[T any] struct {
	list []T
	less func(a, b T) bool
}

// New makes an empty queue. less says whether a comes before b; it must be a strict weak order.
func New[T any](less func(a, b T) bool) *Queue[T] { return &Queue[T]{less: less} }

// Len is the number of items.
func (q *Queue[T]) Len() int { return len(q.list) }

// Push adds an item.
func (q *Queue[T]) Push(x T) {
	q.list = append(q.list, x)
	for i := len(q.list) - 1; i > 0 && q.swap(i, (i-1)/2); {
		i = (i - 1) / 2
	}
}

// First returns the item that comes first. There must be one.
func (q *Queue[T]) First() T { return q.list[0] }

// Pop removes the item that comes first and returns it. There must be one.
func (q *Queue[T]) Pop() T {
	x, last := q.list[0], len(q.list)-1
	q.list[0] = q.list[last]
	q.list[last] = *new(T) // the queue keeps no reference to it
	q.list = q.list[:last]
	for i := 0; 2*i+1 < last; {
		child := 2*i + 1
		if child+1 < last && q.less(q.list[child+1], q.list[child]) {
			child++
		}
		if !q.swap(child, i) {
			break
		}
		i = child
	}
	return x
}

// swap exchanges an item with the one above it if it comes before that one.
func (q *Queue[T]) swap(i, above int) bool {
	if !q.less(q.list[i], q.list[above]) {
		return false
	}
	q.list[i], q.list[above] = q.list[above], q.list[i]
	return true
}
