// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/wakes"
)

// The order of flows is that of the expected time, and says which ranks the ends are.
func TestFlowOrder(t *testing.T) {
	rank := rapid.IntRange(0, 1<<18-1)
	rapid.Check(t, func(t *rapid.T) {
		sender, a, b := rank.Draw(t, "sender"), rank.Draw(t, "receiver"), rank.Draw(t, "another")
		x, y := flowOrder(1, sender, a, 7), flowOrder(1, sender, b, 7)
		if by := wakes.ByDistance(sender, a, b); (x < y) != (by < 0) || (x > y) != (by > 0) {
			t.Errorf("flows to %d and %d have orders %x and %x, but the expected time compares them as %d", a, b, x, y, by)
		}
		if s, r := ranksOf(x); s != sender || r != a {
			t.Errorf("order %x says ranks %d and %d", x, s, r)
		}
		if flowOrder(1, sender, a, 8) <= x || flowOrder(1, sender+1, 0, 0) <= x || flowOrder(2, 0, 0, 0) <= x {
			t.Errorf("order %x is not below those of the next connection, sender and job", x)
		}
	})
}
