// SPDX-License-Identifier: Apache-2.0

package node

import "testing"

func TestTimes(t *testing.T) {
	n := Time{Kernel: 5000, Channels: 700}
	c := Cost{Step: 400.5, PerByte: 0.25, Links: 1.5}
	for _, tc := range []struct {
		what      string
		got, want int64
	}{
		{"launch of one channel", n.Launch(1), 5000},
		{"launch of two channels", n.Launch(2), 5700},
		{"action without bytes", c.Time(0), 401},
		{"action of 2 bytes", c.Time(2), 401},
		{"action of 1 KiB", c.Time(1024), 657},
		{"bytes on a link", int64(c.OnLink(3)), 5},
		{"bytes on a link, not given", int64((&Cost{}).OnLink(3)), 3},
		{"nothing", (&Cost{}).Time(1 << 40), 0},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", tc.what, tc.got, tc.want)
		}
	}
}
