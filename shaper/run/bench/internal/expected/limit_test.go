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
