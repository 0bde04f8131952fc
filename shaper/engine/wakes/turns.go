// SPDX-License-Identifier: Apache-2.0

package wakes

import (
	"cmp"
	"slices"
)

// Turns lets connections post what they have at one instant in the order of a virtual clock: the next message of each
// connection, then the ones after these (read_posts in shaper/engine/clock/flows.c).
type Turns struct {
	order   []int // connections
	place   []int // of each connection in the order
	waiting []int // connections that may have something to post
	waits   []bool
}

// NewTurns orders n connections by compare, which must not be 0 for two of them unless their numbers say who is first.
func NewTurns(n int, compare func(a, b int) int) *Turns {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	t := &Turns{order: order, place: make([]int, n), waits: make([]bool, n)}
	for place, i := range order {
		t.place[i] = place
	}
	return t
}

// ByDistance compares two receivers of a sender as a virtual clock orders them (flow_order in shaper/engine/clock/clock.h): the
// next rank above the sender comes first, and rank 0 follows the last one. So NCCL's rounds of sends and receives serve
// the peers.
func ByDistance(sender, a, b int) int {
	return cmp.Compare(uint(a-sender), uint(b-sender)) // a rank below the sender is beyond all ranks above it
}

// Place is that of a connection in the order.
func (t *Turns) Place(i int) int { return t.place[i] }

// Order is the order. It must not be changed.
func (t *Turns) Order() []int { return t.order }

// Add says that a connection may have something to post.
func (t *Turns) Add(i int) {
	if !t.waits[i] {
		t.waits[i] = true
		t.waiting = append(t.waiting, i)
	}
}

// Any says whether a connection may have something to post.
func (t *Turns) Any() bool { return len(t.waiting) > 0 }

// Post lets the connections that were added post. post posts one message and reports whether there are more. It may add
// connections, for the next Post.
func (t *Turns) Post(post func(i int) (more bool)) {
	posting := t.waiting
	t.waiting = nil
	for _, i := range posting {
		t.waits[i] = false
	}
	slices.SortFunc(posting, func(a, b int) int { return t.place[a] - t.place[b] })
	for len(posting) > 0 {
		posting = slices.DeleteFunc(posting, func(i int) bool { return !post(i) })
	}
}
