// SPDX-License-Identifier: Apache-2.0

package state

import "testing"

// The total of a link's statistics has each class of sizes once.
func TestTotal(t *testing.T) {
	var c LinkStats
	for i := range c.Size {
		n := uint64(1) << (4 * i)
		c.Size[i] = Class{Messages: n, Bytes: 2 * n, OverP50: 3 * n, OverP99: 4 * n, SumLate: int64(5 * n),
			SumTime: int64(6 * n), MaxLate: int64(100 - i)}
		c.Size[i].Late[i] = uint32(n)
	}
	n := uint64(1) << (4 * len(c.Size)) / 15
	want := Class{Messages: n, Bytes: 2 * n, OverP50: 3 * n, OverP99: 4 * n, SumLate: int64(5 * n),
		SumTime: int64(6 * n), MaxLate: 100}
	for i := range c.Size {
		want.Late[i] = c.Size[i].Late[i]
	}
	if got := c.Total(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
