// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/internal/ctest"
)

// A sender serves the ranks above it, then those below it, each in order. So in an all-to-all no two senders serve a
// receiver in the same round.
func TestOrderByDistance(t *testing.T) {
	for sender, want := range [][]int{{1, 2, 3}, {2, 3, 0}, {3, 0, 1}, {0, 1, 2}} {
		all := []int{3, 2, 1, 0}
		all = slices.DeleteFunc(all, func(r int) bool { return r == sender })
		orders := Orders(3,
			func(a, b int) int { return int(Order(sender, all[a], 0)>>18) - int(Order(sender, all[b], 0)>>18) })
		got := make([]int, 3)
		for i, at := range orders {
			got[at] = all[i]
		}
		if !slices.Equal(got, want) {
			t.Errorf("rank %d serves %v, want %v", sender, got, want)
		}
	}
}

// The order says which ranks the ends are, and grows with the number and the sender.
func TestPropertyOrder(t *testing.T) {
	rank := rapid.IntRange(0, 1<<18-1)
	rapid.Check(t, func(t *rapid.T) {
		sender, receiver := rank.Draw(t, "sender"), rank.Draw(t, "receiver")
		x := Order(sender, receiver, 7)
		if s, r := ctest.RanksOf(x); s != sender || r != receiver {
			t.Errorf("order %x says ranks %d and %d", x, s, r)
		}
		if Order(sender, receiver, 8) <= x || Order(sender+1, 0, 0) <= x {
			t.Errorf("order %x is not below those of the next connection and sender", x)
		}
	})
}

// Of equal items the one with the lower number is first.
func TestOrders(t *testing.T) {
	rank := []int{2, 0, 1, 0}
	if got := Orders(4, func(a, b int) int { return rank[a] - rank[b] }); !slices.Equal(got, []uint64{3, 0, 2, 1}) {
		t.Errorf("orders %v", got)
	}
}
