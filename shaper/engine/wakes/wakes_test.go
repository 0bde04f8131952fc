// SPDX-License-Identifier: Apache-2.0

package wakes

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Whatever is set, the heap gives the times in order, and of equal ones that with the smaller tie, then the lower number.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "connections")
		ties := rapid.SliceOfN(rapid.Uint64Range(0, 2), n, n).Draw(t, "ties")
		h := New(n, func(i int, _ int64) uint64 { return ties[i] })
		at := make([]int64, n)
		for i := range at {
			at[i] = link.Never
		}
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			i := rapid.IntRange(0, n-1).Draw(t, "connection")
			at[i] = rapid.SampledFrom([]int64{0, 1, 2, 3, link.Never}).Draw(t, "time")
			h.Set(i, at[i])
		}
		for h.First() != link.Never {
			want := 0
			for i := range at {
				if at[i] < at[want] || at[i] == at[want] && ties[i] < ties[want] {
					want = i
				}
			}
			if first := h.First(); first != at[want] {
				t.Fatalf("the first time is %d, want %d", first, at[want])
			}
			if got := h.Pop(); got != want {
				t.Fatalf("connection %d comes first, want %d", got, want)
			}
			at[want] = link.Never
		}
		for i := range at {
			if at[i] != link.Never {
				t.Fatalf("connection %d at %d did not come", i, at[i])
			}
		}
	})
}

func TestEmpty(t *testing.T) {
	if at := New(0, nil).First(); at != link.Never {
		t.Errorf("first time %d of no connection", at)
	}
}
