// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

func TestDestination(t *testing.T) {
	v := newVirtual(t, func(c *configs.Fabric) { c.Nodes, c.NICsPerNode = 3, 2 })
	w := &Wire{model: v.model}
	for _, tc := range []struct {
		mac  []byte
		want int
	}{
		{[]byte{0x02, 0xdd, 0x1e, 0, 0, 4}, 4},
		{[]byte{0x02, 0xdd, 0x1e, 1, 0, 5}, 5},
		{[]byte{0x02, 0xdd, 0x1e, 1, 0, 3}, nowhere}, // the other NIC of the same node
		{[]byte{0x02, 0xdd, 0x1e, 0, 0, 2}, nowhere}, // itself
		{[]byte{0x02, 0xdd, 0x1e, 0, 0, 6}, nowhere}, // no such NIC
		{[]byte{0x02, 0xdd, 0x1e, 0, 0xff, 0xff}, nowhere},
		{[]byte{0x02, 0x42, 0, 0, 0, 4}, nowhere},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, broadcast},
		{[]byte{0x33, 0x33, 0, 0, 0, 1}, broadcast},
	} {
		if got := w.destination(2, append(tc.mac, make([]byte, 8)...)); got != tc.want {
			t.Errorf("destination of %x: %d, want %d", tc.mac, got, tc.want)
		}
	}
}

func TestLead(t *testing.T) {
	var l lead
	for range 200 {
		l.add(100, 5_000)
		l.add(smallBuffer+1, 9_000)
	}
	if s := l.of(smallBuffer); s < 4_900 || s > 5_000 {
		t.Errorf("the lead of small packets that take 5 us is %d ns", s)
	}
	if s := l.of(60_000); s < 8_900 || s > 9_000 {
		t.Errorf("the lead of large packets that take 9 us is %d ns", s)
	}
	for range 200 {
		l.add(100, 10_000_000) // the thread did not run meanwhile
	}
	if s := l.of(100); s > longestLead {
		t.Errorf("the lead is %d ns, limited to %d", s, longestLead)
	}
}

// Packets are returned by time, and packets of the same time in the order in which they were added.
func TestPropertyPackets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newPackets()
		var want []*packet
		for _, at := range rapid.SliceOf(rapid.Int64Range(0, 20)).Draw(t, "times") {
			p := &packet{due: at}
			h.push(at, p)
			want = append(want, p)
		}
		slices.SortStableFunc(want, func(a, b *packet) int { return int(a.due - b.due) })
		for i, p := range want {
			if h.next() != p.due || h.head() != p {
				t.Fatalf("packet %d is due at %d, want %d", i, h.next(), p.due)
			}
			if got := h.pop(); got != p {
				t.Fatalf("packet %d is a different one, due at %d", i, got.due)
			}
		}
		if h.next() != link.Never || h.head() != nil {
			t.Fatal("packets are left")
		}
	})
}

// Nodes send at less than the rate of their port. No limit remains no limit.
func TestSenderHops(t *testing.T) {
	v := newVirtual(t, func(c *configs.Fabric) { c.Link.Bandwidth = 10 * units.Gbps })
	hops := senderHops(hopsOf(v))
	if got := hops[0].Spec.Bandwidth; got != 9_980_000_000 {
		t.Errorf("a port of 10 Gb/s has senders of %d", got)
	}
	hops[0].Spec.Bandwidth = 0
	if got := senderHops(hops)[0].Spec.Bandwidth; got != 0 {
		t.Errorf("a port without limit has senders of %d", got)
	}
}

func hopsOf(v *virtual) []state.HopStatus {
	var hops []state.HopStatus
	for _, h := range v.fabric.Hops {
		hops = append(hops, state.HopStatus{Spec: h.Spec})
	}
	return hops
}
