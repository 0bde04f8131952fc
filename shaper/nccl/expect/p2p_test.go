// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// What NCCL makes of a message between two nodes, by the rules of addP2pToPlan: parts on channels, then messages of a
// chunk. With LL each 8 bytes need 16.
func TestMessagesOfASend(t *testing.T) {
	for _, tc := range []struct {
		name    string
		version int
		change  func(d *Decision)
		bytes   uint64
		parts   int
		want    []slice // of the first part
	}{
		{"small", 22203, nil, 8 << 10, 1, []slice{{bytes: 8 << 10}}},
		{"a quarter of a slot", 22203, nil, 100 << 10, 2, []slice{{bytes: 32 << 10}, {bytes: 20 << 10}}},
		{"half of a slot", 22203, nil, 256 << 10, 2, []slice{{bytes: 64 << 10}, {bytes: 64 << 10}}},
		{"chunk size", 22203, func(d *Decision) { d.ChunkSize = 48 << 10 }, 256 << 10, 2, []slice{{bytes: 48 << 10}, {bytes: 48 << 10}, {bytes: 32 << 10}}},
		{"chunk size in 4 bits", 22907, func(d *Decision) { d.ChunkSize = 100_000 }, 256 << 10, 2, []slice{{bytes: 96 << 10}, {bytes: 32 << 10}}},
		{"chunk size above the message", 22203, func(d *Decision) { d.ChunkSize = 1 << 20 }, 8 << 10, 1, []slice{{bytes: 8 << 10}}},
		{"LL", 22203, func(d *Decision) { d.P2PLL = true }, 8 << 10, 1, []slice{{bytes: 16 << 10}}},
		{"LL, a byte more than a line", 22203, func(d *Decision) { d.P2PLL = true }, 9, 1, []slice{{bytes: 32}}},
		{"LL, nothing", 22203, func(d *Decision) { d.P2PLL = true }, 0, 1, []slice{{empty: true}}},
		{"LL divided as LL", 22203, func(d *Decision) { d.P2PLL = true }, 32 << 10, 1, []slice{{bytes: 32 << 10}, {bytes: 32 << 10}}},
		{"above LL's limit for both channels", 22203, func(d *Decision) { d.P2PLL = true }, 32<<10 + 1, 1, []slice{{bytes: 32 << 10}, {bytes: 1}}},
		{"above LL's limit for one channel, since 2.29", 22907, func(d *Decision) { d.P2PLL = true }, 16<<10 + 1, 1, []slice{{bytes: 16<<10 + 1}}},
		{"LL divided as Simple, since 2.29", 22907, func(d *Decision) { d.P2PLL, d.P2PLLThreshold = true, 1<<20 }, 128 << 10, 2, []slice{{bytes: 32 << 10}, {bytes: 32 << 10}, {bytes: 32 << 10}, {bytes: 32 << 10}}},
		{"no LL", 22203, func(d *Decision) { d.P2PLL, d.P2PLLThreshold = true, -1 }, 8 << 10, 1, []slice{{bytes: 8 << 10}}},
		{"LL with a chunk size", 22203, func(d *Decision) { d.P2PLL, d.ChunkSize = true, 8<<10 }, 8 << 10, 1, []slice{{bytes: 8 << 10}, {bytes: 8 << 10}}},
		{"LL with another buffer", 22203, func(d *Decision) { d.P2PLL, d.LLBuffSize = true, 64<<10 }, 8 << 10, 2, []slice{{bytes: 4 << 10}, {bytes: 4 << 10}}},
	} {
		d := decide(nccl.SendRecv, Ring, Simple, 2, 2, 0)
		d.Version, d.P2PChannels, d.P2PChannelsPerPeer = tc.version, 4, 2
		if tc.change != nil {
			tc.change(&d)
		}
		c := newCall(&d, &Fabric{Node: func(rank int) int { return rank }})
		ll := c.p2pLL(0, 1, tc.bytes)
		parts := c.p2pParts(tc.bytes, ll)
		var got []slice
		for _, l := range c.messageLoops(partBytes(tc.bytes, parts, 0), tc.bytes, ll, false, nil, []int{0}) {
			for range l.repeat {
				got = append(got, l.actions[0].slice)
			}
		}
		if parts != tc.parts || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %d parts, the first of %+v, want %d of %+v", tc.name, parts, got, tc.parts, tc.want)
		}
	}
}

// Ranks of a node serve their peers in groups of the size that is asked for.
func TestGroupsOfASchedule(t *testing.T) {
	d := decide(nccl.AllToAll, Ring, Simple, 8, 1, 0)
	d.Version = 22907
	for group, want := range map[int][]int{
		0: {0, 1, 2, 3, 4, 5, 6, 7},
		2: {0, 1, 2, 3, 6, 7, 4, 5}, // distances between groups: 0, 1, 3, 2
		3: {0, 1, 3, 6, 2, 7, 5, 4}, // groups of one rank: no other size divides 3 and 4
	} {
		d.P2PGroup = group
		c := newCall(&d, &Fabric{Node: func(rank int) int { return rank / 4 }})
		var sends []int
		for _, r := range c.schedule(0) {
			sends = append(sends, r.send)
		}
		if !slices.Equal(sends, want) {
			t.Errorf("groups of %d: rank 0 sends to %v, want %v", group, sends, want)
		}
	}
}
