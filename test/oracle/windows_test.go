// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// messagePackets is the size of a message of windowed in packets, which is one segment of the model.
const messagePackets = 7

// windowed is model with a limit of messages in flight per flow, as for NCCL's connections. order determines the order
// of flows that are ready at the same instant.
func windowed(t *testing.T, f *fabric.Fabric, demands []demand, depth int, from, to int64, order uint64) []float64 {
	t.Helper()
	flows := flowsOf(t, f, demands)
	next, got, done := make([]int64, len(flows)), make([]float64, len(flows)), make([]uint64, len(flows))
	for _, fl := range flows {
		for range depth {
			fl.Post(messagePackets*packetPayload, 0)
			fl.Recv(-1e6)
		}
	}
	earlier := func(a, b int) bool {
		if next[a] != next[b] {
			return next[a] < next[b]
		}
		return link.Draw(order, 0, 0, uint64(a), uint64(next[a])) < link.Draw(order, 0, 0, uint64(b), uint64(next[b]))
	}
	for {
		first := 0
		for i := range next {
			if earlier(i, first) {
				first = i
			}
		}
		now, fl := next[first], flows[first]
		if now >= to {
			return got
		}
		at := fl.Advance(now)
		m := fl.Message(done[first])
		if end := max(m.Due, m.Sent); end > now {
			next[first] = max(min(at, end), now+1)
			continue
		}
		if done[first]++; now >= from {
			got[first] += messagePackets * packetPayload
		}
		fl.Take()
		fl.Recv(now)
		fl.Post(messagePackets*packetPayload, now)
		next[first] = now + 1
	}
}

// Flows with a window share like packets, whatever their random order. If a buffer is just large enough for all
// windows, it is full at times; then the model, which uses averages, is slightly too fast.
func TestWindowsShareAsPacketsDo(t *testing.T) {
	const from, to = 20e6, 40e6
	for _, c := range []struct {
		queue       string
		depth       int
		total, each float64
	}{{"lossless:256K", 4, 0.01, 0.05}, {"lossless:256K", 16, 0.01, 0.05}, {"lossless:1M", 16, 0.01, 0.05},
		{"lossless:1M", 4, 0.07, 0.5}, {"lossless", 16, 0.01, 0.05}} {
		for seed := uint64(1); seed <= 2; seed++ {
			t.Run(fmt.Sprintf("%s, %d messages, seed %d", c.queue, c.depth, seed), func(t *testing.T) {
				late := time.Microsecond
				f := netOf(t, 8, c.queue, configs.Topology{
					Kind: topology.LeafSpine, Leaves: 2, Spines: 2, Oversubscription: 4,
					Trunk: configs.LinkPatch{Latency: &late},
				}, seed)
				demands := all(upTo(8), upTo(8))
				want := oracleOf(f, demands, from, to, c.depth*messagePackets)
				for order := range uint64(2) {
					got := windowed(t, f, demands, c.depth, from, to, order)
					if a, b := sum(got, nil), sum(want, nil); math.Abs(a/b-1) > c.total {
						t.Errorf("order %d: together %+.1f %% off", order, 100*(a/b-1))
					}
					for i, d := range demands {
						if off := got[i]/want[i] - 1; math.Abs(off) > c.each {
							t.Errorf("order %d: %s to %s: %+.1f %% off", order, f.NICName(d.src), f.NICName(d.dst),
								100*off)
						}
					}
				}
			})
		}
	}
}
