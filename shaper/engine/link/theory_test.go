// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/internal/ctest"
)

// How far throughput may be from the published expressions: those of a textbook, which model
// the same as the engine, and those of tcp.
const (
	rdmaTolerance = 0.05
	tolerance     = 0.10
)

// long skips, with -short, a test that computes for seconds. The race detector finds nothing
// in it, because it has no goroutines.
func long(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
}

// throughput is the time in ns that a flow needs for one message of so many packets, and the
// time for which a packet occupies the line.
func throughput(t *testing.T, wire Spec, tr *Transport, packets float64) (ns, packet float64) {
	t.Helper()
	port := wire
	port.Latency, port.Loss, port.Reorder = 0, Loss{}, Reorder{}
	f := newFabric(t, 2, port, wire, 1, tr)
	fl := f.flow(0, 1)
	p := f.tx[0].Params
	fl.Recv(-int64(time.Hour))
	fl.Post(uint64(packets)*uint64(p.Payload), 0)
	run(0, fl)
	if fl.Stalls() > 0 || fl.Broken() {
		t.Fatalf("%v: the flow stalled %d times, broken %v", wire, fl.Stalls(), fl.Broken())
	}
	return float64(fl.Message(0).Due), float64(p.Serialization(p.Payload))
}

// Go-back-N with a window that never closes: each loss costs the K packets that are sent until
// the sender knows of it, so that
//
//	U = (1-p) / (1-p+K p),  K = 1 + 2a,  2a = round trip / time of a packet
//
// (Stallings, Data and Computer Communications, 7.C: go-back-N, W >= 1+2a). Selective
// repeat costs the packet alone: U = 1-p (the same).
func TestRDMAThroughputIsTheTextbooks(t *testing.T) {
	long(t)
	for _, selective := range []bool{false, true} {
		t.Logf("selective repeat %v", selective)
		for _, rtt := range []time.Duration{4 * time.Microsecond, 20 * time.Microsecond, 200 * time.Microsecond,
			2 * time.Millisecond} {
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
				t.Logf("round trip %6v loss %5.0e: U = %.4f, textbook %.4f, %+.1f %%", rtt, p, got, want,
					100*(got/want-1))
				if math.Abs(got/want-1) > rdmaTolerance {
					t.Errorf("selective repeat %v, round trip %v, loss %v: U = %.4f, textbook %.4f", selective, rtt, p,
						got, want)
				}
			}
		}
	}
}

// bulk is the rate of an endless tcp flow over a line that is never full, in packets per round
// trip, between the times from and to, in round trips. Each packet is lost with probability p
// or, if periodic, one of every 1/p.
func bulk(t *testing.T, control Congestion, rtt time.Duration, p float64, periodic bool, start, from,
	to float64) float64 {
	t.Helper()
	port, wire := Spec{Bandwidth: 1e12, MTU: 1500, Header: 40, Framing: 38},
		Spec{Bandwidth: 1e12, MTU: 1500, Header: 40, Framing: 38}
	wire.Latency, wire.Loss.P = rtt/2, p
	if periodic {
		// In the bad state, where the test puts it, one packet is lost.
		wire.Loss = Loss{GoodToBad: 1e-18, BadToGood: 1, BadP: 1}
	}
	tr := &Transport{Kind: TCP, Congestion: control, Second: 1e9, SendBuffer: 1 << 40, Window: 1 << 40, RTO: 200e6,
		DownTimeout: 1e9}
	f := newFabric(t, 2, port, wire, 1, tr)
	fl := f.flow(0, 1)
	ctest.SetWindow(unsafe.Pointer(fl.flow), uint64(start*float64(f.tx[0].Params.Payload)))
	fl.Recv(0)
	fl.Post(1<<50, 0)
	now, next := int64(0), uint64(1/p)
	until := func(trips float64) float64 {
		for end := int64(trips * float64(rtt)); now < end; {
			if periodic && uint64(fl.flow.packets) >= next {
				fl.flow.bad |= 1 << 1
				next += uint64(1 / p)
			}
			now = fl.Advance(now)
		}
		return float64(fl.flow.packets)
	}
	a := until(from)
	b := until(to)
	if fl.Stalls() > 0 {
		t.Fatalf("%d stalls", fl.Stalls())
	}
	return (b - a) / (to - from)
}

// cubicMean is the mean window of CUBIC in packets, if each loss takes 1/p packets: RFC
// 9438, equation 5 with C = 0.4 and beta = 0.7.
func cubicMean(rtt time.Duration, p float64) float64 {
	return math.Pow(0.4*3.7/(4*0.3), 0.25) * math.Pow(rtt.Seconds()/p, 0.75)
}

// With one packet lost of 1/p, a flow has the throughput of the published formulas: Reno
// sqrt(3/2)/sqrt(p) packets per round trip (Mathis, Semke, Mahdavi and Ott 1997), CUBIC
// that of RFC 9438, 5.1, or where that is less, Reno's (4.3).
func TestTCPThroughputIsThatOfTheFormulas(t *testing.T) {
	long(t)
	for _, control := range []Congestion{Reno, Cubic} {
		for _, rtt := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
			for _, p := range []float64{1e-5, 1e-4, 1e-3, 3e-3} {
				want := math.Sqrt(1.5 / p)
				if control == Cubic {
					want = max(want, cubicMean(rtt, p))
				}
				trips := 1 / p / want
				got := bulk(t, control, rtt, p, true, want, 20*trips, 60*trips)
				t.Logf("%-5v round trip %5v, 1 of %6.0f lost: %6.1f packets per round trip, formula %6.1f, %+.1f %%",
					names[control], rtt, 1/p, got, want, 100*(got/want-1))
				if math.Abs(got/want-1) > tolerance {
					t.Errorf("%v, round trip %v, 1 of %.0f lost: %.1f packets per round trip, formula %.1f",
						names[control], rtt, 1/p, got, want)
				}
			}
		}
	}
}

var names = map[Congestion]string{Reno: "reno", Cubic: "cubic"}

// Losses independent of each other leave Reno within 10 % of sqrt(3/2); as p falls its
// constant becomes 1.31 (Ott, Kemperman and Mathis 1996). CUBIC's is 1.3004 (Poojary and
// Sharma, An asymptotic approximation of TCP CUBIC).
func TestTCPThroughputWithRandomLosses(t *testing.T) {
	long(t)
	for _, c := range []struct {
		control Congestion
		rtt     time.Duration
		p       float64
	}{
		{Reno, 10 * time.Millisecond, 1e-4}, {Reno, 10 * time.Millisecond, 1e-3}, {Reno, 10 * time.Millisecond, 1e-2},
		{Reno, 100 * time.Millisecond, 1e-3}, {Reno, 100 * time.Millisecond, 1e-2},
		{Cubic, 100 * time.Millisecond, 3e-5}, {Cubic, 100 * time.Millisecond, 1e-4}, {Cubic, 400 * time.Millisecond,
			1e-4}, {Cubic, 400 * time.Millisecond, 1e-3},
	} {
		want := 1.3004 * math.Pow(c.rtt.Seconds()/c.p, 0.75)
		if c.control == Reno {
			want = math.Sqrt(1.5 / c.p)
		}
		trips := 1 / c.p / want
		got := bulk(t, c.control, c.rtt, c.p, false, want, 20*trips, 1000*trips)
		t.Logf("%-5v round trip %5v, loss %.0e: %6.1f packets per round trip, formula %6.1f, %+.1f %%",
			names[c.control], c.rtt, c.p, got, want, 100*(got/want-1))
		if math.Abs(got/want-1) > tolerance {
			t.Errorf("%v, round trip %v, loss %v: %.1f packets per round trip, formula %.1f", names[c.control], c.rtt,
				c.p, got, want)
		}
	}
}
