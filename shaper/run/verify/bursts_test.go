// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"math"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// dropped simulates messages of so many packets on a go-back-N flow. sent is the number of packets that the receiver
// could accept, lost how many of them were lost.
func dropped(t *testing.T, l link.Loss, latency time.Duration, message uint64, messages int) (sent, lost float64,
	wasted int) {
	t.Helper()
	spec := link.Spec{Bandwidth: 10e9, MTU: 1500, Header: 40, Framing: 38}
	prepare := func(s link.Spec) link.Params {
		p, err := link.NewParams(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	port := prepare(spec)
	spec.Latency, spec.Loss = latency, l
	net := link.NewNetwork([]link.Params{port, prepare(spec)},
		&link.Transport{Kind: link.RDMA, RTO: 1e6, DownTimeout: 1e9}, nil, 11)
	defer net.Close()
	f := net.NewFlow(1, []link.PathHop{{Hop: 0}, {Hop: 1, Private: true}}, []int{1})
	now := int64(0)
	for range messages {
		f.Recv(now)
		m, _ := f.Post(message*1460, now)
		for next := now; next != link.Never; {
			next = f.Advance(next)
		}
		now = f.Message(m).Sent
		f.Take()
	}
	c := net.Hops[0].Counters
	packet := port.Serialization(port.Payload)
	return float64((c.LineBytes - c.Bytes) / 78), float64(net.Hops[1].Counters.Drops), int(int64(2*latency) / packet)
}

// A go-back-N flow loses as many packets as the formula says: mostly one per burst, because the burst is over before
// the sender knows of it, and more if messages or round trips are short.
func TestBurstsWithGoBackN(t *testing.T) {
	const leastP = 0.01
	for _, c := range []struct {
		loss    link.Loss
		latency time.Duration
		message uint64
	}{
		{link.Loss{GoodToBad: 0.002, BadToGood: 0.1, BadP: 1}, 20 * time.Microsecond, 400},
		{link.Loss{GoodToBad: 0.002, BadToGood: 0.1, BadP: 1}, 5 * time.Microsecond, 4000},
		{link.Loss{GoodToBad: 0.002, BadToGood: 0.1, BadP: 1}, 0, 400},
		{link.Loss{GoodToBad: 0.002, BadToGood: 0.1, BadP: 1}, 200 * time.Microsecond, 20},
		{link.Loss{GoodToBad: 0.002, BadToGood: 0.1, BadP: 1}, 20 * time.Microsecond, 1},
		{link.Loss{GoodToBad: 0.001, BadToGood: 0.02, BadP: 0.5, P: 0.001}, 20 * time.Microsecond, 400},
		{link.Loss{GoodToBad: 0.05, BadToGood: 0.9, BadP: 0.8}, 2 * time.Microsecond, 1000},
		{link.Loss{GoodToBad: 0.01, BadToGood: 0.2, BadP: 1}, 20 * time.Microsecond, 30},
	} {
		sent, lost, wasted := dropped(t, c.loss, c.latency, c.message, 1_000_000/int(c.message))
		part, bursts := goBackN(c.loss, wasted, int(c.message))
		want := sent * part
		b := distuv.Normal{Mu: want, Sigma: math.Sqrt(want * bursts)}
		tail := 2 * min(b.CDF(lost), 1-b.CDF(lost))
		t.Logf("%+v, %d of %d packets wasted: %.0f of %.0f lost, formula %.0f ± %.0f, in the long run %.0f", c.loss,
			wasted, c.message, lost, sent, want, b.Sigma, sent*configs.Loss(c.loss).Mean())
		if tail < leastP {
			t.Errorf("%+v, %d of %d packets wasted: %.0f of %.0f lost, formula %.0f, p-value %.2g", c.loss, wasted,
				c.message, lost, sent, want, tail)
		}
	}
}
