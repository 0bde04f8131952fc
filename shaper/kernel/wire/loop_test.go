// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/state"
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
		{[]byte{0x02, 0xdd, 0x1e, 1, 0, 3}, nowhere}, // the other NIC of its own node
		{[]byte{0x02, 0xdd, 0x1e, 0, 0, 2}, nowhere}, // itself
		{[]byte{0x02, 0xdd, 0x1e, 0, 0, 6}, nowhere}, // more than there are
		{[]byte{0x02, 0xdd, 0x1e, 0, 0xff, 0xff}, nowhere},
		{[]byte{0x02, 0x42, 0, 0, 0, 4}, nowhere},
		{[]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, broadcast},
		{[]byte{0x33, 0x33, 0, 0, 0, 1}, broadcast},
	} {
		if got := w.destination(2, append(tc.mac, make([]byte, 8)...)); got != tc.want {
			t.Errorf("%x goes to %d, want %d", tc.mac, got, tc.want)
		}
	}
}

func TestLead(t *testing.T) {
	var l lead
	for range 200 {
		l.learn(100, 5_000)
		l.learn(smallBuffer+1, 9_000)
	}
	if s := l.of(smallBuffer); s < 4_900 || s > 5_000 {
		t.Errorf("the lead of small packets that take 5 us is %d ns", s)
	}
	if s := l.of(60_000); s < 8_900 || s > 9_000 {
		t.Errorf("the lead of large packets that take 9 us is %d ns", s)
	}
	for range 200 {
		l.learn(100, 10_000_000) // it did not run meanwhile
	}
	if s := l.of(100); s > longestLead {
		t.Errorf("the lead is %d ns, limited to %d", s, longestLead)
	}
}

// A heap gives packets by time, and those of one time in the order they came.
func TestPropertyHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap
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
				t.Fatalf("packet %d is another one due at %d", i, got.due)
			}
		}
		if h.next() != never || h.head() != nil {
			t.Fatal("something is left")
		}
	})
}

// Senders are kept below their ports, and what is unlimited stays so.
func TestSlowed(t *testing.T) {
	v := newVirtual(t, func(c *configs.Fabric) { c.Link.Bandwidth = 10 * units.Gbps })
	hops := slowed(hopsOf(v))
	if got := hops[0].Spec.Bandwidth; got != 9_980_000_000 {
		t.Errorf("senders of 10 Gb/s have %d", got)
	}
	hops[0].Spec.Bandwidth = 0
	if got := slowed(hops)[0].Spec.Bandwidth; got != 0 {
		t.Errorf("unlimited senders have %d", got)
	}
}

func hopsOf(v *virtual) []state.HopStatus {
	var hops []state.HopStatus
	for _, h := range v.fabric.Hops {
		hops = append(hops, state.HopStatus{Spec: h.Spec})
	}
	return hops
}
