// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// NCCL leaves out what the root sends to itself if it is there already, so the works of the others move up in the
// batches of a channel, which hold eight.
func TestInPlaceLeavesOutTheRootsShare(t *testing.T) {
	for _, coll := range []nccl.Collective{nccl.Gather, nccl.Scatter} {
		for inPlace, want := range map[bool][]int{false: {8, 4}, true: {8, 3}} {
			d := sends(coll, 22203, 12, 1, 1<<10)
			d.Root, d.InPlace = 3, inPlace
			c := newCall(t, &d, func(r int) int { return r })
			var got []int // works by batch
			for _, w := range c.works(d.Root)[0] {
				got = append(got, make([]int, w.batch+1-len(got))...)
				got[w.batch]++
				if inPlace && (w.send == d.Root || w.recv == d.Root) {
					t.Errorf("%v: the root sends to itself: %+v", coll, w)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v, in place %v: %v works in the batches, want %v", coll, inPlace, got, want)
			}
			if other := c.works(5)[0]; len(other) != 1 {
				t.Errorf("%v: rank 5 has %d works, want 1", coll, len(other))
			}
		}
	}
}

// Both ends of a schedule have the same round for each other, and each pair meets once.
func TestSchedulesAreSymmetric(t *testing.T) {
	for _, version := range []int{22203, 22907} {
		for _, perNode := range []int{1, 2, 3, 8} {
			for _, ranks := range []int{2, 3, 4, 6, 8, 16} {
				d := Decision{Version: version, Ranks: ranks}
				c := newCall(t, &d, func(r int) int { return r / perNode })
				rounds := make([][]round, ranks)
				for r := range ranks {
					rounds[r] = c.schedule(r)
					if len(rounds[r]) != ranks {
						t.Fatalf("%d rounds for %d ranks, %d per node", len(rounds[r]), ranks, perNode)
					}
				}
				for r := range ranks {
					met := map[int]bool{}
					for k, x := range rounds[r] {
						met[x.send] = true
						if rounds[x.send][k].recv != r || rounds[x.recv][k].send != r {
							t.Fatalf("round %d of rank %d: %+v, its peers disagree", k, r, x)
						}
					}
					if len(met) != ranks {
						t.Fatalf("rank %d meets %d of %d ranks", r, len(met), ranks)
					}
				}
			}
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
		c := newCall(t, &d, func(rank int) int { return rank / 4 })
		var sends []int
		for _, r := range c.schedule(0) {
			sends = append(sends, r.send)
		}
		if !slices.Equal(sends, want) {
			t.Errorf("groups of %d: rank 0 sends to %v, want %v", group, sends, want)
		}
	}
}

// What NCCL makes of a message between two nodes, by the rules of addP2pToPlan: parts on channels, then messages of a
// chunk. With LL each 8 bytes need 16.
func TestMessagesOfASend(t *testing.T) {
	for _, tc := range []struct {
		name    string
		version int
		change  func(d *Decision)
		bytes   uint64
		parts   int
		want    []Slice // of the first part
	}{
		{"small", 22203, nil, 8 << 10, 1, []Slice{{Bytes: 8 << 10}}},
		{"a quarter of a slot", 22203, nil, 100 << 10, 2, []Slice{{Bytes: 32 << 10}, {Bytes: 20 << 10}}},
		{"half of a slot", 22203, nil, 256 << 10, 2, []Slice{{Bytes: 64 << 10}, {Bytes: 64 << 10}}},
		{"chunk size", 22203, func(d *Decision) { d.ChunkSize = 48 << 10 }, 256 << 10, 2,
			[]Slice{{Bytes: 48 << 10}, {Bytes: 48 << 10}, {Bytes: 32 << 10}}},
		{"chunk size in 4 bits", 22907, func(d *Decision) { d.ChunkSize = 100_000 }, 256 << 10, 2,
			[]Slice{{Bytes: 96 << 10}, {Bytes: 32 << 10}}},
		{"chunk size above the message", 22203, func(d *Decision) { d.ChunkSize = 1 << 20 }, 8 << 10, 1,
			[]Slice{{Bytes: 8 << 10}}},
		{"LL", 22203, func(d *Decision) { d.P2PLL = true }, 8 << 10, 1, []Slice{{Bytes: 16 << 10}}},
		{"LL, a byte more than a line", 22203, func(d *Decision) { d.P2PLL = true }, 9, 1, []Slice{{Bytes: 32}}},
		{"LL, nothing", 22203, func(d *Decision) { d.P2PLL = true }, 0, 1, []Slice{{Empty: true}}},
		{"LL divided as LL", 22203, func(d *Decision) { d.P2PLL = true }, 32 << 10, 1,
			[]Slice{{Bytes: 32 << 10}, {Bytes: 32 << 10}}},
		{"above LL's limit for both channels", 22203, func(d *Decision) { d.P2PLL = true }, 32<<10 + 1, 1,
			[]Slice{{Bytes: 32 << 10}, {Bytes: 1}}},
		{"above LL's limit for one channel, since 2.29", 22907, func(d *Decision) { d.P2PLL = true }, 16<<10 + 1, 1,
			[]Slice{{Bytes: 16<<10 + 1}}},
		{"LL divided as Simple, since 2.29", 22907, func(d *Decision) { d.P2PLL, d.P2PLLThreshold = true, 1<<20 },
			128 << 10, 2, []Slice{{Bytes: 32 << 10}, {Bytes: 32 << 10}, {Bytes: 32 << 10}, {Bytes: 32 << 10}}},
		{"no LL", 22203, func(d *Decision) { d.P2PLL, d.P2PLLThreshold = true, -1 }, 8 << 10, 1,
			[]Slice{{Bytes: 8 << 10}}},
		{"LL with a chunk size", 22203, func(d *Decision) { d.P2PLL, d.ChunkSize = true, 8<<10 }, 8 << 10, 1,
			[]Slice{{Bytes: 8 << 10}, {Bytes: 8 << 10}}},
		{"LL with another buffer", 22203, func(d *Decision) { d.P2PLL, d.LLBuffSize = true, 64<<10 }, 8 << 10, 2,
			[]Slice{{Bytes: 4 << 10}, {Bytes: 4 << 10}}},
	} {
		d := decide(nccl.SendRecv, Ring, Simple, 2, 2, 0)
		d.Version, d.P2PChannels, d.P2PChannelsPerPeer = tc.version, 4, 2
		if tc.change != nil {
			tc.change(&d)
		}
		c := newCall(t, &d, func(rank int) int { return rank })
		parts := c.p2pParts(0, 1, tc.bytes)
		var got []Slice
		for _, l := range c.messageLoops(parts.number(0), false, nil, []int{0}) {
			if l.Channels != tc.parts {
				t.Errorf("%s: a loop of %d channels, want %d", tc.name, l.Channels, tc.parts)
			}
			for range l.Repeat {
				got = append(got, l.Actions[0].Slice)
			}
		}
		if parts.channels != tc.parts || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %d parts, the first of %+v, want %d of %+v", tc.name, parts.channels, got, tc.parts, tc.want)
		}
	}
}
