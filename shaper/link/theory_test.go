// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math"
	"testing"
	"time"
)

// tolerance is how far throughput may be from the published expressions.
const tolerance = 0.10

// throughput is the time in ns that a flow takes for one message of so many packets,
// and the time that a packet takes of the line.
func throughput(t *testing.T, wire Spec, tr *Transport, packets float64) (ns, packet float64) {
	t.Helper()
	port := wire
	port.Latency, port.Loss = 0, Loss{}
	f := newFabric(t, 2, port, wire, 1, tr)
	fl := f.flow(0, 1)
	p := f.tx[0].Params
	fl.Recv(-int64(time.Hour))
	fl.Post(uint64(packets)*uint64(p.Payload), 0)
	run(0, fl)
	if fl.Stalls > 0 || fl.Broken {
		t.Fatalf("%v: the flow stalled %d times, broken %v", wire, fl.Stalls, fl.Broken)
	}
	return float64(fl.Message(0).Due), float64(p.Serialise(p.Payload))
}

// Go-back-N with a window that is never closed: each loss costs the K packets that are
// sent until the sender knows, so that
//
//	U = (1-p) / (1-p+K p),  K = 1 + 2a,  2a = round trip / time of a packet
//
// (Stallings, Data and Computer Communications, 7.C: go-back-N, W >= 1+2a). Selective
// repeat costs the packet alone: U = 1-p (the same).
func TestRDMAThroughputIsTheTextbooks(t *testing.T) {
	for _, selective := range []bool{false, true} {
		t.Logf("selective repeat %v", selective)
		for _, rtt := range []time.Duration{4 * time.Microsecond, 20 * time.Microsecond, 200 * time.Microsecond, 2 * time.Millisecond} {
			for _, p := range []float64{1e-5, 1e-4, 1e-3, 1e-2, 0.05} {
				wire := Spec{Bandwidth: 100e9, Latency: rtt / 2, MTU: 4096, Header: 66, Framing: 24, Loss: Loss{P: p}}
				tr := rdma()
				tr.SelectiveRepeat = selective
				n := min(max(3000/p, 5e5), 5e6)
				ns, packet := throughput(t, wire, tr, n)
				k := 1 + float64(rtt)/packet
				want := (1 - p) / (1 - p + k*p)
				if selective {
					want = 1 - p
				}
				got := n * packet / ns
				t.Logf("round trip %6v loss %5.0e: U = %.4f, textbook %.4f, %+.1f %%", rtt, p, got, want, 100*(got/want-1))
				if math.Abs(got/want-1) > tolerance {
					t.Errorf("selective repeat %v, round trip %v, loss %v: U = %.4f, textbook %.4f", selective, rtt, p, got, want)
				}
			}
		}
	}
}
