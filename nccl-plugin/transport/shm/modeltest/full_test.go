// SPDX-License-Identifier: Apache-2.0

package modeltest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// The two models are the same where bounded lossless queues are full and hold lines that
// hold others: senders fill links between switches that are faster than the port behind.
func TestPropertyFullQueues(t *testing.T) {
	tables := &[3]*link.JitterTable{link.NormalTable(), link.ParetoTable(), link.NormalTable()}
	chained := false
	rapid.Check(t, func(t *rapid.T) {
		port := link.Spec{
			Bandwidth: rapid.SampledFrom([]uint64{1e9, 123456789, 40e9}).Draw(t, "bw"), MTU: 9000, Header: 40, Framing: 38,
			QueueBytes: rapid.SampledFrom([]uint64{1, 50_000, 200_000}).Draw(t, "queue"),
		}
		wire := port
		wire.Latency = 2 * time.Microsecond
		trunk := wire
		trunk.Bandwidth *= rapid.Uint64Range(1, 4).Draw(t, "faster")
		trunks := make([]link.Spec, rapid.IntRange(0, 3).Draw(t, "trunks"))
		for i := range trunks {
			trunks[i] = trunk
		}
		tr := link.Transport{Kind: link.RDMA, RTO: 67e6, DownTimeout: 3e6}
		f, hops, paths := star(t, 4, port, wire, trunks, 1, tr)
		defer f.Close()
		scaled := f.Fixed().Transport
		var inC []*Flow
		var inGo []*link.Flow
		for a := 1; a <= 3; a++ {
			c, g := New(f, uint64(a), a, 0), flowInGo(uint64(a), a, 0, hops, paths, &scaled, tables)
			defer c.Free()
			for range 4 {
				c.Post(1<<20, 0)
				c.Recv(0)
				g.Post(1<<20, 0)
				g.Recv(0)
			}
			inC, inGo = append(inC, c), append(inGo, g)
		}
		next := make([]int64, len(inC))
		for range 2000 {
			first := 0
			for i := range next {
				if next[i] < next[first] {
					first = i
				}
			}
			now := next[first]
			if now == link.Never {
				break
			}
			c, g := inC[first].Advance(now), inGo[first].Advance(now)
			if c != g {
				t.Fatalf("flow %d at %d: next step at %d in C, %d in Go", first, now, c, g)
			}
			next[first] = max(g, now+1)
		}
		for i, h := range f.Hops() {
			if d := cmp.Diff(hops[i].Counters, h.Counters); d != "" {
				t.Fatalf("hop %d: counters in Go (-) and C (+):\n%s", i, d)
			}
			if len(trunks) > 0 && i == paths[[2]int{1, 0}][2] {
				chained = chained || h.Counters.Pauses > 0
			}
		}
	})
	if !chained {
		t.Error("no link between switches was ever held")
	}
}

// Buffers of more segments than a flow holds fill: the models stall, forget and go on by
// the same times.
func TestPropertyFullBuffers(t *testing.T) {
	stalled := false
	rapid.Check(t, func(t *rapid.T) {
		port := link.Spec{Bandwidth: 40e9, MTU: rapid.SampledFrom([]uint32{576, 1500, 9000}).Draw(t, "mtu"), Header: 40, Framing: 38}
		wire := port
		wire.Bandwidth, wire.Latency = 1e8, time.Duration(rapid.Int64Range(0, 200e6).Draw(t, "latency"))
		buffer := rapid.SampledFrom([]uint64{4 << 20, 64 << 20, 512 << 20}).Draw(t, "buffer")
		tr := link.Transport{Kind: link.TCP, SendBuffer: buffer, Window: buffer, RTO: 200e6, DownTimeout: 10e9}
		f, hops, paths := star(t, 2, port, wire, nil, 1, tr)
		defer f.Close()
		c, g := New(f, 1, 0, 1), flowInGo(1, 0, 1, hops, paths, &tr, nil)
		defer c.Free()
		messages, size := rapid.IntRange(20, 400).Draw(t, "messages"), uint64(1<<20)
		for range messages {
			c.Post(size, 0)
			c.Recv(0)
			g.Post(size, 0)
			g.Recv(0)
		}
		for now := int64(0); now != link.Never; {
			next := g.Advance(now)
			if got := c.Advance(now); got != next {
				t.Fatalf("at %d: next step at %d in C, %d in Go", now, got, next)
			}
			now = next
		}
		if all := uint64(messages) * size; g.Arrived() != all || c.Arrived() != all || c.Stalls() != g.Stalls {
			t.Fatalf("of %d bytes %d arrived in C, %d in Go; %d and %d stalls", all, c.Arrived(), g.Arrived(), c.Stalls(), g.Stalls)
		}
		stalled = stalled || g.Stalls > 0
	})
	if !stalled {
		t.Error("no flow ever held as many segments as it can")
	}
}
