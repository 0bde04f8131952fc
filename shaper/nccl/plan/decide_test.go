// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

func newCall(t *testing.T, d *Decision, node func(rank int) int) *Call {
	t.Helper()
	c, err := NewCall(d, node)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// decide returns a decision for float32 data on rings in rank order.
func decide(coll nccl.Collective, algo Algorithm, proto Protocol, ranks, channels int, bytes uint64) Decision {
	ring := make([]int, ranks)
	for i := range ring {
		ring[i] = i
	}
	d := Decision{
		Version: 22203, Coll: coll, Algo: algo, Proto: proto, Ranks: ranks, Channels: channels,
		Count: bytes / 4, ElemSize: 4,
	}
	for range channels {
		d.Rings = append(d.Rings, ring)
	}
	return d
}

// sends is a decision for a collective that is made of sends and receives.
func sends(coll nccl.Collective, version, ranks, channels int, share uint64) Decision {
	d := decide(coll, Ring, Simple, ranks, channels, share)
	d.Version, d.P2PChannels, d.P2PChannelsPerPeer = version, channels, channels
	return d
}

// grouped are all-reduces of 4-byte elements, of so many bytes.
func grouped(version int, bytes ...uint64) []Decision {
	var out []Decision
	for _, n := range bytes {
		d := decide(nccl.AllReduce, Ring, Simple, 4, 2, n)
		d.Version = version
		out = append(out, d)
	}
	return out
}
