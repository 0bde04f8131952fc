// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// pair is an override of links that are named by match.
func pair(match string, rate units.Bandwidth) configs.LinkOverride {
	return configs.LinkOverride{Match: match, LinkPatch: configs.LinkPatch{Bandwidth: &rate}}
}

// down is an override that takes links down.
func down(match string) configs.LinkOverride {
	return configs.LinkOverride{Match: match, LinkPatch: configs.LinkPatch{Up: ptr(false)}}
}

func TestBisection(t *testing.T) {
	latency := time.Microsecond
	pairsOfLeaves := func(leaves int, links ...configs.LinkOverride) configs.Fabric {
		c := wired(2*leaves, 1, configs.Topology{Kind: topology.LeafSpine, Leaves: leaves})
		c.Links = links
		return c
	}
	star := func(nodes int, links ...configs.LinkOverride) configs.Fabric {
		c := config(nodes, 1)
		c.Links = links
		return c
	}
	oneWay := config(4, 1)
	oneWay.Topology = configs.Topology{
		Kind: topology.Custom, Switches: []string{"a", "b", "c"},
		Attach: []configs.Attach{{Match: "*", Switch: "c"}, {Match: "node0", Switch: "a"},
			{Match: "node1", Switch: "b"}},
		Trunk: configs.LinkPatch{Latency: &latency},
		Links: []configs.SwitchLink{
			{Between: "a:b"}, {Between: "a>c", LinkPatch: configs.LinkPatch{Bandwidth: ptr(units.Gbps)}},
			{Between: "b:c", LinkPatch: configs.LinkPatch{Bandwidth: ptr(4 * units.Gbps)}},
		},
	}
	unlimited := config(4, 1)
	unlimited.Link.Bandwidth = units.Unlimited
	for _, c := range []struct {
		name        string
		config      configs.Fabric
		there, back units.Bandwidth // Gb/s; 0 = nothing
	}{
		{"plain", star(4), 200, 200},
		{"odd", star(5), 200, 200},
		{"a slow pair", star(2, pair("node0:node1", units.Gbps)), 1, 1},
		{"a slow pair, one direction", star(2, pair("node0>node1", units.Gbps)), 1, 100},
		{"slow pairs", star(4, pair("node0:node2", units.Gbps), pair("node0:node3", units.Gbps),
			pair("node1:node2", units.Gbps), pair("node1:node3", units.Gbps)), 4, 4},
		{"slow pairs of one node", star(4, pair("node0:*", units.Gbps)), 102, 102},
		{"a pair within a half", star(4, pair("node0:node1", units.Gbps)), 200, 200},
		{"a node down", star(4, down("node3")), 100, 100},
		{"a node's sending down", star(4, down("node3>*")), 200, 100},
		{"all down", star(4, down("*:*")), 0, 0},
		{"one direction between switches", oneWay, 5, 4},
		{"leaves", pairsOfLeaves(2), 200, 200},
		{"leaves, a node down", pairsOfLeaves(2, down("node3")), 100, 100},
		{"leaves, slow pairs of one node", pairsOfLeaves(2, pair("node3>*", units.Gbps)), 200, 102},
		{"leaves, a link and a pair",
			pairsOfLeaves(2, pair("leaf0>spine0", 50*units.Gbps), pair("node2:*", units.Gbps)), 50, 102},
		{"leaves, a downlink and what others get",
			pairsOfLeaves(4, pair("spine0>leaf2", 10*units.Gbps), pair("*>node6", units.Gbps),
				pair("*>node7", units.Gbps)), 18, 400},
		{"leaves, an uplink and what others send",
			pairsOfLeaves(4, pair("leaf0>spine0", 10*units.Gbps), pair("node2>*", units.Gbps),
				pair("node3>*", units.Gbps)), 18, 400},
		// Both send to node2 alone.
		{"leaves, pairs that share", pairsOfLeaves(2, down("node0>node3"), down("node1>node3")), 100, 200},
		{"leaves, uplinks down", pairsOfLeaves(2, down("spine0")), 0, 0},
		{"leaves, one direction down", pairsOfLeaves(2, down("spine0>leaf0")), 200, 0},
	} {
		b := build(t, c.config).Bisection()
		got := []any{b.There.LineRate / units.Gbps, b.There.None, b.Back.LineRate / units.Gbps, b.Back.None}
		if d := cmp.Diff([]any{c.there, c.there == 0, c.back, c.back == 0}, got); d != "" {
			t.Errorf("%s: there, none, back, none (-want +got):\n%s", c.name, d)
		}
	}
	for name, c := range map[string]configs.Fabric{"unlimited": unlimited, "one node": config(1, 1)} {
		if b := build(t, c).Bisection(); b.There.LineRate != units.Unlimited || b.There.None {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

// On a star the bisection is the least cut, found by trying all.
func TestPropertyBisectionIsTheLeastCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(2, 6).Draw(t, "nodes")
		c := config(nodes, 1)
		draw := func(what string) units.Bandwidth {
			return units.Bandwidth(rapid.IntRange(1, 150).Draw(t, what)) * units.Gbps
		}
		for a := range nodes {
			c.Links = append(c.Links, pair(fmt.Sprintf("node%d", a), draw("node")))
		}
		for a := range nodes {
			for b := range nodes {
				if a != b && rapid.Bool().Draw(t, "slow") {
					c.Links = append(c.Links, pair(fmt.Sprintf("node%d>node%d", a, b), draw("pair")))
				}
			}
		}
		f, err := New(&c)
		if err != nil {
			t.Fatal(err)
		}
		got := f.Bisection()
		if there, back := leastCut(f, false), leastCut(f, true); uint64(got.There.LineRate) != there ||
			uint64(got.Back.LineRate) != back {
			t.Fatalf("%v there and %v back, want %d and %d", got.There.LineRate, got.Back.LineRate, there, back)
		}
	})
}

// leastCut tries all sets of ports to cut. Pairs whose ports are not cut have their links cut.
func leastCut(f *Fabric, back bool) uint64 {
	least, half := uint64(1<<63), f.NICs()/2
	for cut := range 1 << f.NICs() {
		sum := uint64(0)
		is := func(n int) bool { return cut>>n&1 == 1 }
		for i, h := range f.Hops {
			sends, gets := h.Src < half != back, h.Dst >= half != back
			if h.Kind == link.TxPort && sends && is(h.Src) || h.Kind == link.RxPort && gets && is(h.Dst) ||
				h.Kind == link.Link && sends && gets && !is(h.Src) && !is(h.Dst) {
				sum += f.Hops[i].Spec.Bandwidth
			}
		}
		least = min(least, sum)
	}
	return least
}
