// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"
	"time"
)

// A loss costs its retransmission and, until it is found, a round trip; for the last packet
// of a message, which no later one reveals, two round trips with tcp (RFC 8985) and the RTO
// with rdma.
func TestOneLossCostsItsDetection(t *testing.T) {
	const oneWay, rto = 10_000_000, 77_000_000
	port, between := gigabit(oneWay)
	// in the bad state, where the test puts it, one packet is lost
	between.Loss = Loss{GoodToBad: 1e-18, BadToGood: 1, BadP: 1}
	selective := &Transport{Kind: RDMA, SelectiveRepeat: true, RTO: rto, DownTimeout: 1e9}
	buffers := &Transport{Kind: TCP, SendBuffer: 1 << 20, Window: 1 << 20, RTO: rto, DownTimeout: 1e9}
	for _, tc := range []struct {
		name    string
		tr      *Transport
		packets uint64
		found   int64
	}{
		{"tcp, the first of two packets", buffers, 2, 2 * oneWay},
		{"tcp, the only packet", buffers, 1, 4 * oneWay},
		{"rdma, the first of two packets", selective, 2, 2 * oneWay},
		{"rdma, the only packet", selective, 1, rto},
	} {
		f := newFabric(t, 2, port, between, 1, tc.tr)
		fl := f.flow(0, 1)
		fl.Recv(-1e9)
		fl.Post(tc.packets*1460, 0)
		fl.flow.bad |= 1 << 1
		run(0, fl)
		const packet = 1538 * 8
		if got, want := fl.Message(0).Due, int64(tc.packets+1)*packet+oneWay+tc.found; got != want {
			t.Errorf("%s: due at %d, want %d", tc.name, got, want)
		}
	}
}

// A taildrop queue accepts what waits for no longer than its limit, and marks what waits
// for longer than the ECN threshold: packet i of a burst waits i times as long as the slow
// hop takes longer than the fast one.
func TestTailDropAndECNAtTheirLimits(t *testing.T) {
	const fast, slow, limit, threshold = 1538 * 8 / 10, 1538 * 8, 20, 5 // ns; packets
	port := Spec{Bandwidth: 10e9, MTU: 1500, Header: 40, Framing: 38}
	between := Spec{Bandwidth: 1e9, Latency: time.Second, MTU: 1500, Header: 40, Framing: 38, QueueBytes: limit * 1538,
		ECN: threshold * 1538, QueuePolicy: TailDrop}
	f := newFabric(t, 2, port, between, 1, tcp())
	fl := f.flow(0, 1)
	const n = 40
	for range n {
		fl.Recv(0)
		fl.Post(1460, 0)
	}
	for now := int64(0); now < 1e9; now = fl.Advance(now) {
	}
	accepted, marked := uint64(0), uint64(0)
	for i := int64(0); i < n && i*(slow-fast) <= limit*slow; i++ {
		accepted++
		if i*(slow-fast) > threshold*slow {
			marked++
		}
	}
	c := f.links[[2]int{0, 1}].Counters
	if c.Segments != accepted || c.ECNMarks != marked || c.Drops == 0 {
		t.Errorf("%d of %d accepted, %d marked, %d dropped; want %d and %d", c.Segments, n, c.ECNMarks, c.Drops,
			accepted, marked)
	}
}

// A message of one packet on an idle path takes 2 o + L + the time of its bytes on the
// slowest hop: the LogGP model with cut-through switches, wherever the slowest hop is.
func TestOneMessageTakesLogGPsTime(t *testing.T) {
	const o, latency, size = 700, 5_000, 1000
	for slow, name := range []string{"send port", "link", "receive port"} {
		fast := Spec{Bandwidth: 10e9, MTU: 1500, Header: 40, Framing: 38}
		between := fast
		between.Latency = latency * time.Nanosecond
		tr := tcp()
		tr.Overhead = o
		f := newFabric(t, 2, fast, between, 1, tr)
		p, err := NewParams(Spec{Bandwidth: 1e9, MTU: 1500, Header: 40, Framing: 38}, 1)
		if err != nil {
			t.Fatal(err)
		}
		hops := []hop{f.tx[0], f.links[[2]int{0, 1}], f.rx[1]}
		p.Latency = hops[slow].Params.Latency
		f.net.Change(hops[slow].number, p, 0)
		fl := f.flow(0, 1)
		fl.Recv(0)
		fl.Post(size, 0)
		run(0, fl)
		const onLine = (size + 40 + 38) * 8 // ns at 1 Gb/s
		if got, want := fl.Message(0).Due, int64(2*o+latency+onLine); got != want {
			t.Errorf("slow %s: due at %d, want %d", name, got, want)
		}
	}
}
