// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math"
	"testing"
	"time"
)

// A go-back-N receiver discards a packet that overtakes another, as if it were lost: each
// costs a round trip, by the textbook's formula for losses.
func TestReorderingCostsGoBackNARoundTrip(t *testing.T) {
	for _, p := range []float64{1e-3, 1e-2} {
		wire := Spec{Bandwidth: 100e9, Latency: 10 * time.Microsecond, MTU: 4096, Header: 66, Framing: 24,
			Reorder: Reorder{p, 2 * time.Microsecond}}
		n := 3000 / p
		ns, packet := throughput(t, wire, rdma(), n)
		k := 1 + 20e3/packet
		got, want := n*packet/ns, (1-p)/(1-p+k*p)
		if math.Abs(got/want-1) > rdmaTolerance {
			t.Errorf("%v of the packets early: U = %.4f, by the formula %.4f", p, got, want)
		}
	}
}

// Where the receiver keeps what comes early, nothing is later than without it.
func TestReorderingIsAbsorbed(t *testing.T) {
	selective := rdma()
	selective.SelectiveRepeat = true
	reno := tcp()
	reno.Congestion, reno.Second = Reno, 1e9
	for name, tr := range map[string]*Transport{"selective repeat": selective, "tcp": tcp(), "reno": reno} {
		wire := Spec{Bandwidth: 1e9, Latency: time.Millisecond, MTU: 1500, Header: 40, Framing: 38}
		ordered, _ := throughput(t, wire, tr, 5000)
		wire.Reorder = Reorder{0.1, 500 * time.Microsecond}
		if reordered, _ := throughput(t, wire, tr, 5000); reordered != ordered {
			t.Errorf("%s: %.0f ns, in order %.0f", name, reordered, ordered)
		}
	}
}

// Packets that are further apart than they are early overtake nothing, and neither do
// packets that are all early.
func TestReorderingNeedsPacketsCloseTogether(t *testing.T) {
	for _, tc := range []struct {
		share     float64
		apart     int64
		reordered bool
	}{{0.3, 50_000, true}, {0.3, 200_000, false}, {1, 50_000, false}} {
		wire := Spec{Bandwidth: 1e9, Latency: time.Millisecond, MTU: 1500, Header: 40, Framing: 38,
			Reorder: Reorder{tc.share, 100 * time.Microsecond}}
		f := newFabric(t, 2, Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}, wire, 1, rdma())
		fl := f.flow(0, 1)
		for i := range int64(50) {
			fl.Recv(-1e9)
			fl.Post(8, i*tc.apart)
		}
		run(0, fl)
		if late := fl.Message(49).Due-fl.Message(0).Due > 49*tc.apart; late != tc.reordered {
			t.Errorf("%+v: the first is due at %d, the last at %d", tc, fl.Message(0).Due, fl.Message(49).Due)
		}
	}
}

func TestReorderRefuses(t *testing.T) {
	for _, r := range []Reorder{{-0.1, 1}, {1.1, 1}, {math.NaN(), 1}, {0.1, -1}, {0.1, MaxLatency + 1}} {
		if p, err := NewParams(Spec{MTU: 1500, Reorder: r}, 1); err == nil {
			t.Errorf("%v: %+v", r, p.Reorder)
		}
	}
}
