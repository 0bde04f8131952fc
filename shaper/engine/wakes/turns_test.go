// SPDX-License-Identifier: Apache-2.0

package wakes

import (
	"slices"
	"testing"
)

// Connections post one message each, in their order, then the next ones. One that is added meanwhile comes with the
// next Post, and one that is added twice comes once.
func TestTurns(t *testing.T) {
	rank := []int{2, 0, 1}
	turns := NewTurns(3, func(a, b int) int { return rank[a] - rank[b] })
	if got := []int{turns.Place(0), turns.Place(1), turns.Place(2)}; !slices.Equal(got, rank) || !slices.Equal(turns.Order(), []int{1, 2, 0}) {
		t.Fatalf("places %v, order %v", got, turns.Order())
	}
	messages := []int{1, 3, 2}
	var posted []int
	post := func(i int) bool {
		if len(posted) == 1 {
			turns.Add(2)
			turns.Add(2)
		}
		posted = append(posted, i)
		messages[i]--
		return messages[i] > 0
	}
	for _, i := range []int{0, 1, 2, 0} {
		turns.Add(i)
	}
	turns.Post(post)
	if want := []int{1, 2, 0, 1, 2, 1}; !slices.Equal(posted, want) || !turns.Any() {
		t.Fatalf("posted %v, want %v; more: %v", posted, want, turns.Any())
	}
	posted = []int{9, 9}
	turns.Post(post)
	if want := []int{9, 9, 2}; !slices.Equal(posted, want) || turns.Any() {
		t.Fatalf("then posted %v, want %v; more: %v", posted, want, turns.Any())
	}
}

// A sender serves the ranks above it, then those below it, each in order. So in an all-to-all no two senders serve a
// receiver with the same turn.
func TestByDistance(t *testing.T) {
	for sender, want := range [][]int{{1, 2, 3}, {2, 3, 0}, {3, 0, 1}, {0, 1, 2}} {
		got := []int{3, 2, 1, 0}
		got = slices.DeleteFunc(got, func(r int) bool { return r == sender })
		slices.SortFunc(got, func(a, b int) int { return ByDistance(sender, a, b) })
		if !slices.Equal(got, want) {
			t.Errorf("rank %d serves %v, want %v", sender, got, want)
		}
	}
}
