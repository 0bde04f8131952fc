// SPDX-License-Identifier: Apache-2.0

package netgraph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/units"
)

var access = Link{Rate: 100 * units.Gbps, Latency: 500}

// graph has nodes of nics NICs each, on the switches that home names, and trunks from a to b.
func graph(nodes, nics, switches int, home func(node, nic int) int, trunks ...[2]int) *Graph {
	g := &Graph{Nodes: nodes, NICs: nics}
	for i := range switches {
		g.Switches = append(g.Switches, fmt.Sprintf("s%d", i))
	}
	for n := range nodes {
		for i := range nics {
			g.Ports = append(g.Ports, Port{home(n, i), access})
		}
	}
	for _, t := range trunks {
		g.Trunks = append(g.Trunks, Trunk{A: t[0], B: t[1], Link: Link{Rate: 400 * units.Gbps, Latency: 700},
			Back: 700})
	}
	return g
}

func TestKinds(t *testing.T) {
	half := func(node, _ int) int { return node / 2 }
	own := func(_, nic int) int { return nic }
	for name, tc := range map[string]struct {
		g    *Graph
		want string // kind, leaves and spines, or the error
	}{
		"one switch": {graph(3, 2, 1, func(int, int) int { return 0 }), " 0 0"},
		"leaves and spines": {graph(4, 2, 4, half, [2]int{0, 2}, [2]int{3, 0}, [2]int{1, 2}, [2]int{1, 3}),
			"leaf-spine 2 2"},
		"a spine less":  {graph(4, 2, 4, half, [2]int{0, 2}, [2]int{0, 3}, [2]int{1, 2}), "custom 0 0"},
		"leaves joined": {graph(4, 2, 2, half, [2]int{0, 1}), "custom 0 0"},
		"uneven leaves": {graph(3, 1, 3, func(n, _ int) int { return n / 2 }, [2]int{0, 2}, [2]int{1, 2}),
			"leaf-spine 2 1"},
		"nodes not in order": {graph(4, 1, 3, func(n, _ int) int { return n % 2 }, [2]int{0, 2}, [2]int{1, 2}),
			"custom 0 0"},
		"rails":       {graph(3, 2, 3, own, [2]int{0, 2}, [2]int{1, 2}), "rail 0 1"},
		"rails apart": {graph(3, 2, 2, own), " 0 0"},
		"parts":       {graph(4, 1, 2, half), "the switches are in 2 parts"},
		"parts of two planes": {graph(4, 2, 4, func(n, i int) int { return 2*(n/2) + i }, [2]int{0, 2}, [2]int{1, 3}),
			"the switches are in 2 parts"},
	} {
		out := found.Options{}.Start("test")
		err := tc.g.Apply(out)
		got := fmt.Sprintf("%s %d %d", out.Config.Topology.Kind, out.Config.Topology.Leaves, out.Config.Topology.Spines)
		if err != nil {
			got = err.Error()
		} else if err := out.Config.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The time that a path takes is the sum of its cables, whichever kind of topology it became.
func TestLatencies(t *testing.T) {
	g := graph(4, 1, 3, func(n, _ int) int { return n / 2 }, [2]int{0, 2}, [2]int{1, 2})
	g.SwitchLatency = 100
	for i := range g.Trunks {
		g.Trunks[i].Latency, g.Trunks[i].Back = 800, 900 // up and down
	}
	custom := *g
	custom.Trunks = append([]Trunk{}, g.Trunks...)
	custom.Trunks[0].Back = 901 // no longer alike
	for want, g := range map[string]*Graph{"leaf-spine": g, "custom": &custom} {
		out := found.Options{}.Start("test")
		if err := g.Apply(out); err != nil {
			t.Fatal(err)
		}
		net, err := out.Config.Net()
		if err != nil {
			t.Fatal(err)
		}
		if out.Config.Topology.Kind != want {
			t.Errorf("%s, want %s", out.Config.Topology.Kind, want)
		}
		sum := out.Config.Link.Latency
		for _, i := range net.Path(0, 3) {
			sum += net.Trunks[i].Latency
		}
		if sum != 2*500+100+800+900 {
			t.Errorf("%s: %v", want, sum)
		}
	}
}

// Each direction of a trunk keeps its latency, whichever end the file names first.
func TestDirections(t *testing.T) {
	for _, ends := range [][2]int{{0, 1}, {1, 0}} {
		g := graph(4, 1, 2, func(n, _ int) int { return n / 2 }, ends)
		g.Trunks[0].Latency, g.Trunks[0].Back = 700, 900 // from the first end, and back
		out := found.Options{}.Start("test")
		if err := g.Apply(out); err != nil {
			t.Fatal(err)
		}
		net, err := out.Config.Net()
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range net.Links {
			want := map[bool]int{true: 700, false: 900}[l.From == ends[0]]
			if got := net.Trunks[i].Latency; int(got) != want {
				t.Errorf("%v: from %d %v, want %d", ends, l.From, got, want)
			}
		}
	}
}

// NICs of another rate, and cables beside others.
func TestUnlike(t *testing.T) {
	g := graph(3, 1, 2, func(n, _ int) int { return n / 2 }, [2]int{0, 1}, [2]int{1, 0}, [2]int{0, 1})
	g.Ports[1].Rate = 25 * units.Gbps
	out := found.Options{}.Start("test")
	if err := g.Apply(out); err != nil {
		t.Fatal(err)
	}
	c := out.Config
	if c.Link.Bandwidth != 100*units.Gbps || len(c.Links) != 1 || c.Links[0].Match != "node1.nic0" ||
		*c.Links[0].Bandwidth != 25*units.Gbps {
		t.Errorf("%v %+v", c.Link.Bandwidth, c.Links)
	}
	if len(c.Topology.Links) != 1 || *c.Topology.Trunk.Bandwidth != 1200*units.Gbps ||
		!strings.Contains(strings.Join(out.Notes, " "), "2 links beside another") {
		t.Errorf("%+v %q", c.Topology, out.Notes)
	}
	g.Ports[2].Latency = 600
	if err := g.Apply(found.Options{}.Start("test")); err == nil || !strings.Contains(err.Error(), "node2.nic0") {
		t.Errorf("another latency: %v", err)
	}
}

func TestFirst(t *testing.T) {
	// A chain of 5 switches with a node each, and a detour from 0 to 2 that is no shorter than the chain.
	g := graph(5, 1, 6, func(n, _ int) int { return n }, [2]int{0, 1}, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 4},
		[2]int{0, 5}, [2]int{5, 2})
	g.First(3)
	if got, want := fmt.Sprint(g.Nodes, len(g.Ports), g.Switches), "3 3 [s0 s1 s2 s5]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var cables []string
	for _, c := range g.Trunks {
		cables = append(cables, g.Switches[c.A]+g.Switches[c.B])
	}
	if got, want := strings.Join(cables, " "), "s0s1 s1s2 s0s5 s2s5"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	before := fmt.Sprint(g)
	g.First(3)
	g.First(0)
	if fmt.Sprint(g) != before {
		t.Error("a graph of 3 nodes changed")
	}
}

func TestTooLarge(t *testing.T) {
	g := graph(300, 1, 1, func(int, int) int { return 0 })
	if err := g.Apply(found.Options{}.Start("test")); err == nil || !strings.Contains(err.Error(), "--nodes 256") {
		t.Errorf("%v", err)
	}
}
