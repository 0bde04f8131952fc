// SPDX-License-Identifier: Apache-2.0

// Package queue is a priority queue.
package queue

import "container/heap"

// Queue gives its items in the order of a function.
type Queue[T any] struct{ h items[T] }

// New makes an empty queue. less says whether a comes before b; it must be a strict weak order.
func New[T any](less func(a, b T) bool) *Queue[T] { return &Queue[T]{items[T]{less: less}} }

// Len is the number of items.
func (q *Queue[T]) Len() int { return len(q.h.list) }

// Push adds an item.
func (q *Queue[T]) Push(x T) { heap.Push(&q.h, x) }

// First returns the item that comes first. There must be one.
func (q *Queue[T]) First() T { return q.h.list[0] }

// Pop removes the item that comes first and returns it. There must be one.
func (q *Queue[T]) Pop() T { return heap.Pop(&q.h).(T) }

// items is what container/heap orders.
type items[T any] struct {
	list []T
	less func(a, b T) bool
}

func (h *items[T]) Len() int           { return len(h.list) }
func (h *items[T]) Less(a, b int) bool { return h.less(h.list[a], h.list[b]) }
func (h *items[T]) Swap(a, b int)      { h.list[a], h.list[b] = h.list[b], h.list[a] }
func (h *items[T]) Push(x any)         { h.list = append(h.list, x.(T)) }

func (h *items[T]) Pop() any {
	last := len(h.list) - 1
	x := h.list[last]
	h.list[last] = *new(T) // the queue keeps no reference to it
	h.list = h.list[:last]
	return x
}
