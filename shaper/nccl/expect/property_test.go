// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// drawDecision returns a random decision that the model knows, with ranks in random rings.
func drawDecision(t *rapid.T, most uint64) plan.Decision {
	ranks := rapid.SampledFrom([]int{2, 3, 4, 5, 8}).Draw(t, "ranks")
	channels := rapid.IntRange(1, 5).Draw(t, "channels")
	coll := nccl.Collective(rapid.IntRange(int(nccl.AllReduce), len(nccl.Collectives())-1).Draw(t, "collective"))
	if coll.CheckRanks(ranks) != nil {
		ranks = 4
	}
	algo := plan.Ring
	if coll == nccl.AllReduce && rapid.Bool().Draw(t, "tree") {
		algo = plan.Tree
	}
	d := decide(coll, algo, plan.Protocol(rapid.IntRange(int(plan.LL), int(plan.Simple)).Draw(t, "protocol")), ranks,
		channels, 0)
	d.Version = rapid.SampledFrom([]int{22203, 22304, 22603, 22907, 23007}).Draw(t, "version")
	if (coll == nccl.AllGather || coll == nccl.ReduceScatter) && rapid.Bool().Draw(t, "pat") {
		d.Algo, d.Proto, d.Version = plan.PAT, plan.Simple, 22907
	}
	d.ElemSize = rapid.SampledFrom([]uint64{1, 2, 4, 8}).Draw(t, "element size")
	d.Count = rapid.Uint64Range(1, most/d.ElemSize).Draw(t, "count") >> rapid.IntRange(0, 16).Draw(t, "shift")
	d.Root = rapid.IntRange(0, ranks-1).Draw(t, "root")
	d.P2PChannels = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "p2p channels")
	d.P2PChannelsPerPeer = rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "per peer")
	d.P2PChannelsPerPeer = min(d.P2PChannelsPerPeer, d.P2PChannels)
	rng := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "rings")))
	for c := range d.Rings {
		rng.Shuffle(ranks, func(i, j int) { d.Rings[c][i], d.Rings[c][j] = d.Rings[c][j], d.Rings[c][i] })
	}
	return d
}

func drawStar(t *rapid.T) star {
	s := eth1(rapid.SampledFrom([]link.Transport{tcp(), rdma()}).Draw(t, "transport"))
	if rapid.Bool().Draw(t, "host") {
		s.tr.Host = link.Host{PerMessage: rapid.Int64Range(0, 50_000).Draw(t, "per message"),
			NsNum: rapid.Uint64Range(0, 20).Draw(t, "copy"), NsDen: 1}
	}
	s.bandwidth = rapid.SampledFrom([]uint64{1e9, 25e9, 400e9}).Draw(t, "bandwidth")
	s.latency = time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "latency"))
	s.perNode = rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "ranks per node")
	return s
}

// What one end of a connection sends, the other one receives, message by message, and all data is carried.
func TestPropertyBothEndsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDecision(t, 8<<20)
		s := drawStar(t)
		f := s.build()
		_, p, err := newSimulated(&d, f, choose())
		if err != nil {
			t.Fatal(err)
		}
		sent, recvd := make([][]plan.Slice, len(p.Conns)), make([][]plan.Slice, len(p.Conns))
		for _, b := range p.Blocks {
			for _, batch := range b.Batches {
				for _, prog := range batch {
					for _, l := range prog {
						for range l.Repeat {
							for _, a := range l.Actions {
								for _, i := range a.Send {
									if !a.KeepSend {
										sent[i] = append(sent[i], a.Slice)
									}
								}
								for _, i := range a.Recv {
									if !a.KeepRecv {
										recvd[i] = append(recvd[i], a.Slice)
									}
								}
							}
						}
					}
				}
			}
		}
		for i := range sent {
			if d.Algo == plan.PAT { // messages change their size on the path
				if len(sent[i]) != len(recvd[i]) {
					t.Fatalf("%+v: %d sent, %d received", p.Conns[i], len(sent[i]), len(recvd[i]))
				}
				continue
			}
			if !slices.Equal(sent[i], recvd[i]) {
				t.Fatalf("%+v: sent %v, received %v", p.Conns[i], sent[i], recvd[i])
			}
		}
	})
}

// No call is faster than its busiest port, and each node's cut carries at least the bytes that the collective must
// move.
func TestPropertyNeverBelowTheCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, s := drawDecision(t, 512<<10), drawStar(t)
		d.Iterations = minCalls // played in full
		e, err := Simulate(context.Background(), d, s.build())
		if err != nil {
			t.Fatal(err)
		}
		if e.played < e.Bound*(1-1e-9) || e.First < e.Bound*(1-1e-9) {
			t.Fatalf("%.0f ns, the first %.0f, below the bound of %.0f", e.played, e.First, e.Bound)
		}
		if len(e.Traffic) > 0 && e.First < float64(s.latency) {
			t.Fatalf("the first call took %.0f ns, less than one latency", e.First)
		}
		node := func(r int) int { return r / s.perNode }
		for _, cut := range d.Cuts(node) {
			var out, in uint64
			for _, tr := range e.Traffic {
				if node(tr.Src) == cut.Node {
					out += tr.Bytes
				}
				if node(tr.Dst) == cut.Node {
					in += tr.Bytes
				}
			}
			if out < cut.Out || in < cut.In {
				t.Fatalf("node %d: %d bytes out, %d in; must be %d and %d at least", cut.Node, out, in, cut.Out, cut.In)
			}
		}
	})
}

// A slower link or a longer path never makes a call faster, except because flows that share a port may take turns in
// another order: by up to 10 %, where a call is short and a message of it takes a tenth of the time (5.3 % with 3
// ranks).
func TestPropertyMonotonic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, s := drawDecision(t, 512<<10), drawStar(t)
		d.Iterations = minCalls // played in full
		worse := s
		if rapid.Bool().Draw(t, "slower") {
			worse.bandwidth /= 2
		} else {
			worse.latency += time.Duration(rapid.IntRange(20_000, 1_000_000).Draw(t, "more latency"))
		}
		a, err := Simulate(context.Background(), d, s.build())
		if err != nil {
			t.Fatal(err)
		}
		b, err := Simulate(context.Background(), d, worse.build())
		if err != nil {
			t.Fatal(err)
		}
		if b.Time < a.Time*0.9 {
			t.Fatalf("%.0f ns at %d bit/s and %v, %.0f at %d and %v", a.Time, s.bandwidth, s.latency, b.Time,
				worse.bandwidth, worse.latency)
		}
	})
}

// The directions of the channels' rings hardly change the time: only the order in which flows take turns at a port
// changes.
func TestPropertyOrderOfChannels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks, channels := rapid.IntRange(2, 5).Draw(t, "ranks"), rapid.IntRange(2, 4).Draw(t, "channels")
		d := decide(nccl.AllReduce, plan.Ring, rapid.SampledFrom([]plan.Protocol{plan.Simple, plan.LL128}).Draw(t,
			"protocol"), ranks, channels, lighter(1<<19)*uint64(channels))
		for c := range d.Rings {
			if rapid.Bool().Draw(t, "backwards") {
				slices.Reverse(d.Rings[c])
			}
		}
		d.Iterations = minCalls
		s := drawStar(t)
		s.perNode = 1
		a, err := Simulate(context.Background(), d, s.build())
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(d.Rings)
		b, err := Simulate(context.Background(), d, s.build())
		if err != nil {
			t.Fatal(err)
		}
		if b.Time < a.Time*0.9 || b.Time > a.Time*1.1 {
			t.Fatalf("%.0f ns, with the channels in the other direction %.0f", a.Time, b.Time)
		}
	})
}
