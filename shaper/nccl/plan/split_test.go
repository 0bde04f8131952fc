// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

func TestMessages(t *testing.T) {
	for _, tc := range []struct {
		coll  nccl.Collective
		algo  Algorithm
		proto Protocol
		elems uint64 // of a chunk, float32
		want  []Slice
	}{
		{nccl.AllReduce, Ring, Simple, 512 << 10, []Slice{{Bytes: 1 << 20}, {Bytes: 1 << 20}}},
		{nccl.AllReduce, Ring, Simple, 10_000, []Slice{{Bytes: 32 << 10}, {Bytes: 40_000 - 32<<10}}},
		{nccl.AllReduce, Ring, Simple, 2, []Slice{{Bytes: 8}, {}}},
		{nccl.AllReduce, Ring, Simple, 0, []Slice{{}, {}}},
		{nccl.Broadcast, Ring, Simple, 128 << 10, []Slice{{Bytes: 512 << 10}}},
		{nccl.AllReduce, Tree, Simple, 128 << 10, []Slice{{Bytes: 512 << 10}}},
		{nccl.AllReduce, Ring, LL, 8192, []Slice{{Bytes: 64 << 10}}},
		{nccl.AllReduce, Ring, LL, 3, []Slice{{Bytes: 32}}},
		{nccl.AllReduce, Ring, LL, 0, []Slice{{Empty: true}}},
		{nccl.AllReduce, Ring, LL128, 480, []Slice{{Bytes: 2048}}},
		{nccl.AllReduce, Ring, LL128, 481, []Slice{{Bytes: 4096}}},
	} {
		c := newCall(t, &Decision{Version: 22203, Coll: tc.coll, Algo: tc.algo, Proto: tc.proto}, nil)
		if got := c.slices(tc.elems, 4); !slices.Equal(got, tc.want) {
			t.Errorf("%v %v/%v, %d elements: %+v, want %+v", tc.coll, tc.algo, tc.proto, tc.elems, got, tc.want)
		}
	}
}

// The counts and chunks were calculated by hand from NCCL's rules.
func TestSharesByVersion(t *testing.T) {
	const KiB = 1 << 10
	for _, tc := range []struct {
		name     string
		version  int
		coll     nccl.Collective
		proto    Protocol
		channels int
		bytes    uint64
		want     []uint64 // bytes per channel
		chunk    uint64
	}{
		{"a few bytes take one channel", 22203, nccl.AllReduce, LL, 2, 8, []uint64{8}, 32 * KiB},
		{"two channels from 64 KiB on", 22203, nccl.AllReduce, Simple, 2, 64 * KiB, []uint64{32 * KiB, 32 * KiB},
			2048 * KiB},
		{"one below, and 2.22 leaves a crumb", 22203, nccl.AllReduce, Simple, 2, 64*KiB - 4, []uint64{64*KiB - 16, 12},
			2048 * KiB},
		{"2.29 does not", 22907, nccl.AllReduce, Simple, 2, 64*KiB - 4, []uint64{64*KiB - 4}, 2048 * KiB},
		{"2.22 cuts to 16 bytes", 22203, nccl.AllReduce, Simple, 2, 100 * KiB, []uint64{50 * KiB, 50 * KiB},
			2048 * KiB},
		{"2.26 to 8 KiB", 22603, nccl.AllReduce, Simple, 2, 100 * KiB, []uint64{56 * KiB, 44 * KiB}, 2048 * KiB},
		{"2.29 to 16 KiB", 22907, nccl.AllReduce, Simple, 2, 100 * KiB, []uint64{64 * KiB, 36 * KiB}, 2048 * KiB},
		{"2.29 counts LL fourfold", 22907, nccl.AllReduce, LL, 2, 100 * KiB, []uint64{52 * KiB, 48 * KiB}, 32 * KiB},
		{"LL128 chunks", 22203, nccl.AllReduce, LL128, 1, 1 << 20, []uint64{1 << 20}, 576000},
		{"a chain's chunk is one step", 22203, nccl.Broadcast, Simple, 1, 1 << 20, []uint64{1 << 20}, 512 * KiB},
		{"three channels", 22203, nccl.Reduce, Simple, 3, 3 << 20, []uint64{1 << 20, 1 << 20, 1 << 20}, 512 * KiB},
	} {
		d := decide(tc.coll, Ring, tc.proto, 2, tc.channels, tc.bytes)
		d.Version = tc.version
		c := newCall(t, &d, func(r int) int { return r })
		parts, err := c.Shares()
		if err != nil {
			t.Fatal(err)
		}
		var got []uint64
		for _, p := range parts {
			got = append(got, p.count*c.shape().elem)
			if p.chunk*c.shape().elem != tc.chunk {
				t.Errorf("%s: chunk %d bytes, want %d", tc.name, p.chunk*c.shape().elem, tc.chunk)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v bytes, want %v", tc.name, got, tc.want)
		}
	}
}
