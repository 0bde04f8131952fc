// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// timesOn are those of a fabric of 2 nodes with 4 GPUs each, of which this is the kind.
func timesOn(t *testing.T, kind, nvlink string) *Times {
	t.Helper()
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	if c.GPU, err = configs.BuiltInGPU(kind); err != nil {
		t.Fatal(err)
	}
	c.NodeTime, c.GPUsPerNode, c.NVLink = true, 4, nvlink
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return New(f, func(rank int) int { return rank / 4 }, func(string) string { return "" })
}

func TestLimitNames(t *testing.T) {
	switched := timesOn(t, "h100-sxm", "")
	hops := len(switched.fabric.Hops)
	for _, tc := range []struct {
		times *Times
		limit expect.Limit
		want  string
	}{
		{switched, expect.Limit{By: expect.ByHop, Share: 0.984, Hop: 1}, "NIC node0 rx, 98 %"},
		{switched, expect.Limit{By: expect.ByHop, Share: 1, Hop: switched.fabric.Link(0, 1)}, "link node0:node1, 100 %"},
		{switched, expect.Limit{By: expect.ByHop, Share: 0.9, Hop: hops}, "NVLink node0/gpu0:out, 90 %"},
		{switched, expect.Limit{By: expect.ByHop, Share: 0.9, Hop: hops + 2*5 + 1}, "NVLink node1/gpu1:in, 90 %"},
		{timesOn(t, "h100-sxm", configs.MeshNVLink), expect.Limit{By: expect.ByHop, Share: 0.9, Hop: hops + 5*4 + 3},
			"NVLink node1/gpu1:node1/gpu3, 90 %"},
		{timesOn(t, "l40s", ""), expect.Limit{By: expect.ByHop, Share: 0.9, Hop: hops + 1}, "PCIe node0/gpu0:in, 90 %"},
		{timesOn(t, "l40s", ""), expect.Limit{By: expect.ByHop, Share: 0.9, Hop: hops + 16 + 2*3}, "PCIe node1/pci1:out, 90 %"},
		{switched, expect.Limit{By: expect.ByHost, Share: 0.6, Hop: 0}, "proxy node0 tx, 60 %"},
		{switched, expect.Limit{By: expect.ByLaunch, Share: 0.6}, "launch, 60 %"},
		{switched, expect.Limit{By: expect.ByThread, Share: 1}, "host thread, 100 %"},
		{switched, expect.Limit{By: expect.BySteps, Share: 0.6}, "steps (16 channels), 60 %"},
		{switched, expect.Limit{By: expect.ByChannel, Share: 0.6}, "channel rate (16 channels), 60 %"},
		{switched, expect.Limit{By: expect.ByChannel, Share: 0.6, PeerChannels: 1}, "channel rate (1 channel to a peer), 60 %"},
		{switched, expect.Limit{By: expect.ByLatency, Share: 0.7}, "latency, 70 %"},
		{switched, expect.Limit{}, ""},
	} {
		d := plan.Decision{Ranks: 128, P2PChannels: 16, P2PChannelsPerPeer: 1}
		got := tc.times.limit(&d, &expect.Estimate{Channels: 16, Limit: tc.limit})
		if got.String() != tc.want {
			t.Errorf("%+v: %q, want %q", tc.limit, got.String(), tc.want)
		}
		why := "NCCL has 16 channels for sends and receives of 128 ranks, 1 per peer"
		if (got.Why == why) != (tc.limit.PeerChannels > 0) {
			t.Errorf("%+v: why: %q", tc.limit, got.Why)
		}
	}
	if (bench.Limit{}).String() != "" {
		t.Error("a limit that is not known has a text")
	}
}

// The busiest hop is the first of those that are occupied longest, with the number of others of its kind.
func TestBusiestHop(t *testing.T) {
	times := timesOn(t, "h100-sxm", "")
	port, link, gpu := 1, times.fabric.Link(0, 1), times.fabric.FirstGPULink()
	for _, tc := range []struct {
		loads []expect.Load
		want  bench.BusyHop
	}{
		{nil, bench.BusyHop{}},
		{[]expect.Load{{Hop: port, BusyNs: 0.4}}, bench.BusyHop{}}, // less than a ns
		{[]expect.Load{{Hop: port, BusyNs: 40}, {Hop: gpu, BusyNs: 80}},
			bench.BusyHop{Kind: "NVLink", Name: "node0/gpu0:out", Share: 0.8}},
		{[]expect.Load{{Hop: port, BusyNs: 50}, {Hop: port + 1, BusyNs: 50 * (1 - 1e-12)}, {Hop: port + 2, BusyNs: 49},
			{Hop: link, BusyNs: 50}}, bench.BusyHop{Kind: "NIC", Name: "node0 rx", Share: 0.5, Alike: 1}},
		{[]expect.Load{{Hop: link, BusyNs: 90}}, bench.BusyHop{Kind: "link", Name: "node0:node1", Share: 0.9}},
	} {
		e := &expect.Estimate{Time: 100, Loads: tc.loads}
		for _, l := range tc.loads {
			e.Bound = max(e.Bound, l.BusyNs)
		}
		if got := times.busiest(e); got != tc.want {
			t.Errorf("%v: %+v, want %+v", tc.loads, got, tc.want)
		}
	}
}

// A link between switches is called a trunk, as in fabric files.
func TestBusiestTrunk(t *testing.T) {
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.Topology = 4, configs.Topology{Kind: "leaf-spine", Leaves: 2, Spines: 1,
		Trunk: configs.LinkPatch{Latency: &c.Link.Latency}}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	times := New(f, func(rank int) int { return rank }, func(string) string { return "" })
	trunk := len(f.Hops) - 1
	got := times.busiest(&expect.Estimate{Time: 100, Bound: 99, Loads: []expect.Load{{Hop: trunk, BusyNs: 99}}})
	if want := (bench.BusyHop{Kind: "trunk", Name: f.HopName(trunk), Share: 0.99}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
