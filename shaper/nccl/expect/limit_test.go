// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// What is named limits the calls: they take longer if it does, by its share at least.
func TestLimit(t *testing.T) {
	allGather := func(proto plan.Protocol, channels int, bytes uint64) plan.Decision {
		return decide(nccl.AllGather, plan.Ring, proto, 4, channels, bytes)
	}
	sends := func(n node.Time) node.Time { n.Send = node.Cost{Step: 900, PerByte: 0.1}; return n }
	two := decide(nccl.SendRecv, plan.Ring, plan.Simple, 4, 1, 64<<20)
	two.P2PChannels, two.P2PChannelsPerPeer = 4, 2
	cube := decide(nccl.HyperCube, plan.Ring, plan.Simple, 4, 1, 64)
	cube.P2PChannels, cube.P2PChannelsPerPeer = 1, 1
	nvls := decide(nccl.AllReduce, plan.NVLS, plan.Simple, 4, 4, 64<<20)
	nvls.NVLSChannels = 4
	for _, tc := range []struct {
		name   string
		d      plan.Decision
		n      node.Time
		rate   uint64 // of the links in GB/s
		want   LimitedBy
		slower func(n *node.Time, rate *uint64)
	}{
		{"launch", allGather(plan.LL, 1, 64), node.Time{Kernel: 20_000, LL: node.Cost{Step: 700}}, 1000, ByLaunch,
			func(n *node.Time, _ *uint64) { n.Kernel *= 2 }},
		{"latency", allGather(plan.LL, 1, 64), node.Time{Kernel: 1000, LL: node.Cost{Step: 100}}, 1000, ByLatency, nil},
		{"steps", allGather(plan.Simple, 1, 16<<20), node.Time{Simple: node.Cost{Step: 90_000, PerByte: 0.01}}, 1000, BySteps,
			func(n *node.Time, _ *uint64) { n.Simple.Step *= 2 }},
		{"channel", allGather(plan.Simple, 1, 16<<20), node.Time{Simple: node.Cost{Step: 100, PerByte: 0.1}}, 1000, ByChannel,
			func(n *node.Time, _ *uint64) { n.Simple.PerByte *= 2 }},
		{"a channel of sends", two, sends(node.Time{Simple: node.Cost{Step: 1e6}}), 1000, ByChannel,
			func(n *node.Time, _ *uint64) { n.Send.PerByte *= 2 }},
		{"NVLS, heads", nvls, node.Time{NVLSCopy: node.Cost{PerByte: 0.001}, NVLSHead: node.Cost{PerByte: 0.4}}, 1000,
			ByChannel, func(n *node.Time, _ *uint64) { n.NVLSHead.PerByte *= 2 }},
		{"NVLS, copies", nvls, node.Time{NVLSCopy: node.Cost{PerByte: 0.4}, NVLSHead: node.Cost{PerByte: 0.001}}, 1000,
			ByChannel, func(n *node.Time, _ *uint64) { n.NVLSCopy.PerByte *= 2 }},
		{"links", allGather(plan.Simple, 16, 16<<20), node.Time{Simple: node.Cost{PerByte: 0.01}}, 100, ByHop,
			func(_ *node.Time, rate *uint64) { *rate /= 2 }},
		{"thread", allGather(plan.LL, 1, 64), node.Time{Kernel: 5000, Call: 50_000, LL: node.Cost{Step: 700}}, 1000, ByThread,
			func(n *node.Time, _ *uint64) { n.Call *= 2 }},
		{"thread, two kernels in a call", cube, sends(node.Time{Kernel: 5000, Call: 50_000}), 1000, ByThread,
			func(n *node.Time, _ *uint64) { n.Call *= 2 }},
	} {
		tc.d.Iterations, tc.d.LocalTime = 20, true
		e, err := Simulate(context.Background(), tc.d, oneNode(4, tc.n, tc.rate))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if l := e.Limit; l.By != tc.want || l.Share < limiting || l.Share > 1.01 {
			t.Errorf("%s: %+v, want %v", tc.name, l, tc.want)
		}
		if want := 2; tc.d.Coll == nccl.SendRecv && e.Limit.PeerChannels != want {
			t.Errorf("%s: %d channels to a peer, want %d", tc.name, e.Limit.PeerChannels, want)
		}
		if tc.slower == nil {
			continue
		}
		n, rate := tc.n, tc.rate
		tc.slower(&n, &rate)
		slow, err := Simulate(context.Background(), tc.d, oneNode(4, n, rate))
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got := slow.Time/e.Time - 1; got < limiting {
			t.Errorf("%s: at half the rate calls take only %.0f %% longer", tc.name, 100*got)
		}
	}
}

// Between nodes it is the ports, or the workers of their ends.
func TestLimitBetweenNodes(t *testing.T) {
	worker, err := link.NewHost(0, 2e8)
	if err != nil {
		t.Fatal(err)
	}
	for want, host := range map[LimitedBy]link.Host{ByHop: {}, ByHost: worker} {
		tr := rdma()
		tr.Host = host
		f := eth1(tr).build()
		d := decide(nccl.AllGather, plan.Ring, plan.Simple, 2, 1, 16<<20)
		e, err := Simulate(context.Background(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		if l := e.Limit; l.By != want || l.Share < limiting {
			t.Errorf("%+v, want %v", l, want)
		}
	}
}

// A call that takes no time has no limit.
func TestLimitOfNoTime(t *testing.T) {
	for name, d := range map[string]plan.Decision{
		"one rank": decide(nccl.AllGather, plan.Ring, plan.Simple, 1, 1, 16<<20),
		"0 bytes":  decide(nccl.AllGather, plan.Ring, plan.Simple, 2, 1, 0),
	} {
		e, err := Simulate(context.Background(), d, eth1(rdma()).build())
		if err != nil {
			t.Fatal(err)
		}
		if e.Time != 0 || e.Limit != (Limit{By: ByNothing}) {
			t.Errorf("%s: %v ns, %+v", name, e.Time, e.Limit)
		}
	}
}
