// SPDX-License-Identifier: Apache-2.0

// Package wakes orders connections by the next time at which they must be looked at.
package wakes

import "github.com/ddlemu/ddlemu/shaper/engine/link"

// Heap has a time for each of a number of connections, [link.Never] at first. Of equal times, that with the smaller tie
// comes first, then that of the lower number.
type Heap struct {
	tieOf func(i int, at int64) uint64
	at    []int64  // by connection
	tie   []uint64 // of a connection at its time
	place []int    // position of a connection in order
	order []int
}

// New makes a heap of n connections. tieOf gives the tie of a connection at a time.
func New(n int, tieOf func(i int, at int64) uint64) *Heap {
	h := &Heap{tieOf: tieOf, at: make([]int64, n), tie: make([]uint64, n), place: make([]int, n), order: make([]int, n)}
	for i := range n {
		h.at[i], h.place[i], h.order[i] = link.Never, i, i
	}
	return h
}

// First is the earliest time.
func (h *Heap) First() int64 {
	if len(h.order) == 0 {
		return link.Never
	}
	return h.at[h.order[0]]
}

// Time is that of a connection.
func (h *Heap) Time(i int) int64 { return h.at[i] }

// Pop returns the earliest connection and sets its time to Never. One must have a time.
func (h *Heap) Pop() int {
	i := h.order[0]
	h.Set(i, link.Never)
	return i
}

func (h *Heap) less(a, b int) bool {
	if h.at[a] != h.at[b] {
		return h.at[a] < h.at[b]
	}
	return h.tie[a] < h.tie[b] || h.tie[a] == h.tie[b] && a < b
}

// Set changes a connection's time.
func (h *Heap) Set(i int, t int64) {
	h.at[i], h.tie[i] = t, h.tieOf(i, t)
	k := h.place[i]
	for k > 0 && h.less(i, h.order[(k-1)/2]) {
		k = h.swap(k, (k-1)/2)
	}
	for {
		child := 2*k + 1
		if child >= len(h.order) {
			return
		}
		if child+1 < len(h.order) && h.less(h.order[child+1], h.order[child]) {
			child++
		}
		if !h.less(h.order[child], i) {
			return
		}
		k = h.swap(k, child)
	}
}

// swap exchanges two positions and returns the second.
func (h *Heap) swap(a, b int) int {
	x, y := h.order[a], h.order[b]
	h.order[a], h.order[b] = y, x
	h.place[x], h.place[y] = b, a
	return b
}
