// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"
	"time"
)

// A NIC of 4 rails of 100 Gb/s sends a message below twice the least stripe over one of them, and large ones over all.
// Other messages use the other rails meanwhile. The expected times are those of the rails' rates, without headers.
func TestRails(t *testing.T) {
	const stripe, rail = 128 << 10, 100e9
	onRails := func(size, rails float64) int64 { return int64(size * 8 / (rails * rail) * 1e9) }
	for _, c := range []struct {
		name  string
		sizes []uint64
		want  int64 // ns from the first byte sent to the last one received, without the latency
	}{
		{"one rail", []uint64{64 << 10}, onRails(64<<10, 1)},
		{"one rail, two segments", []uint64{stripe}, onRails(stripe, 1)},
		{"two rails", []uint64{stripe + 1}, onRails(stripe, 2)},
		{"three stripes on two rails", []uint64{3 * stripe}, onRails(3*stripe, 2)},
		{"all rails", []uint64{4 * stripe}, onRails(4*stripe, 4)},
		{"all rails, a large message", []uint64{4 << 20}, onRails(4<<20, 4)},
		{"four messages on one rail each", []uint64{64 << 10, 64 << 10, 64 << 10, 64 << 10},
			onRails(64<<10, 1) + onRails(3*(64<<10), 4)},
	} {
		tr := *rdma()
		tr.Rails, tr.MinStripe = 4, stripe
		port := Spec{Bandwidth: 4 * rail, MTU: 4096}
		wire := port
		wire.Latency = time.Microsecond
		f := newFabric(t, 2, port, wire, 1, &tr)
		fl := f.flow(0, 1)
		for _, size := range c.sizes {
			fl.Post(size, 0)
			fl.Recv(0)
		}
		run(0, fl)
		// The clear-to-send and the bytes take a latency each.
		got := fl.Message(uint64(len(c.sizes)-1)).Due - 2*int64(time.Microsecond)
		if off := got - c.want; off < -2 || off > 20 {
			t.Errorf("%s: %d ns, want %d", c.name, got, c.want)
		}
	}
}
