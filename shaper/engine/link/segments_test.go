// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"
	"testing"
	"time"
)

// A message is cut into as few segments as the limit allows, whose numbers of packets differ by at most one. On these
// hops a packet carries 4096 bytes, and a segment at most 64 KiB at 400 Gb/s and 48 KiB at 4 Gb/s (100 us are 50,000
// bytes).
func TestSegmentsAreEqual(t *testing.T) {
	small := tcp()
	small.SendBuffer = 30_000 // a segment is at most a quarter of it, whatever a packet carries
	for _, c := range []struct {
		name      string
		tr        *Transport
		bandwidth uint64
		size      uint64
		want      []uint32
	}{
		{"empty", rdma(), 400e9, 0, []uint32{0}},
		{"one segment", rdma(), 400e9, 65_536, []uint32{65_536}},
		{"one byte more", rdma(), 400e9, 65_537, []uint32{36_864, 28_673}},
		{"a step of LL128 on 64 ranks", rdma(), 400e9, 69_905, []uint32{36_864, 33_041}},
		{"two segments", rdma(), 400e9, 131_072, []uint32{65_536, 65_536}},
		{"three segments", tcp(), 400e9, 140_000, []uint32{49_152, 49_152, 41_696}},
		{"a slow hop", rdma(), 4e9, 100_000, []uint32{36_864, 32_768, 30_368}},
		{"a small send buffer", small, 400e9, 10_000, []uint32{7_500, 2_500}},
	} {
		port := Spec{Bandwidth: c.bandwidth, MTU: 4096}
		wire := port
		wire.Latency = time.Microsecond
		f := newFabric(t, 2, port, wire, 1, c.tr)
		f.net.KeepHopRecords()
		fl := f.flow(0, 1)
		fl.Post(c.size, 0)
		fl.Recv(0)
		run(0, fl)
		var got []uint32
		for _, p := range f.net.HopRecords(nil) {
			if p.Hop == 0 {
				got = append(got, p.Bytes)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s, %d bytes: segments of %v, want %v", c.name, c.size, got, c.want)
		}
	}
}
