// SPDX-License-Identifier: Apache-2.0

// Package netgraph makes the topology of a fabric from a list of NICs, switches and links, as simulators write it.
package netgraph

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Link is one direction of a cable.
type Link struct {
	Rate    units.Bandwidth
	Latency time.Duration // one way
	Loss    float64       // probability per packet
}

// Port is the cable from a NIC to its switch, in both directions alike.
type Port struct {
	Switch int
	Link
}

// Trunk is a cable between two switches.
type Trunk struct {
	A, B int
	Link
	Back   time.Duration // latency from B to A; Link has that from A to B
	beside int           // further cables that bundle joined with this one
}

// Graph is a network. The latency of a switch is in the latency of each trunk that leads to it; SwitchLatency is the
// latency of the first switch of a path.
type Graph struct {
	Nodes, NICs   int    // NICs of each node
	Ports         []Port // of NIC i of node n at n x NICs + i
	Switches      []string
	Trunks        []Trunk
	SwitchLatency time.Duration
}

// Apply gives out the network of g: its nodes, NICs, links and topology.
func (g *Graph) Apply(out *found.Fabric) error {
	if n := len(g.Ports); n > configs.MaxNICs {
		return fmt.Errorf(
			"the network has %d NICs, a fabric at most %d: --nodes takes the first nodes, such as --nodes %d", n,
			configs.MaxNICs, max(configs.MaxNICs/g.NICs, 1))
	}
	c := &out.Config
	c.Nodes, c.NICsPerNode, c.Links, c.Topology = g.Nodes, g.NICs, nil, configs.Topology{}
	if err := g.ports(c); err != nil {
		return err
	}
	g.bundle()
	beside := 0
	for _, t := range g.Trunks {
		beside += t.beside
	}
	if beside > 0 {
		out.Note(
			"%s beside another between the same two switches: the fabric has one link with the rate of all, and a "+
				"flow may use all of it", units.Count(beside, "link"))
	}
	leaves, spines := g.homes(), g.spines()
	parts := g.parts(leaves)
	switch {
	case len(leaves) == 1:
	case g.railsApart():
		out.Note(
			"the %d rails are not joined: in the fabric NICs of different rails reach each other over one ideal switch",
			g.NICs)
	case parts > 1:
		return fmt.Errorf(
			"the switches are in %d parts, such as planes, that no link joins: a fabric's NICs all reach each other",
			parts)
	case g.isLeafSpine(leaves, spines):
		c.Topology = configs.Topology{Kind: topology.LeafSpine, Leaves: len(leaves), Spines: len(spines),
			Trunk: g.uniform()}
	case g.isRail(leaves, spines):
		c.Topology = configs.Topology{Kind: topology.Rail, Spines: len(spines), Trunk: g.uniform()}
	default:
		c.Topology = g.custom()
	}
	return nil
}

// ports sets the links between nodes. A packet from one node to another crosses two ports.
func (g *Graph) ports(c *configs.Fabric) error {
	first := g.Ports[0].Link
	count := map[units.Bandwidth]int{}
	for i, p := range g.Ports {
		if p.Latency != first.Latency || p.Loss != first.Loss {
			return fmt.Errorf(
				"the link of %s has a latency of %v and a loss of %g, the link of %s %v and %g: a fabric's NICs have the "+
					"same",
				g.nic(i), p.Latency, p.Loss, g.nic(0), first.Latency, first.Loss)
		}
		count[p.Rate]++
	}
	rate := first.Rate
	for _, p := range g.Ports {
		if count[p.Rate] > count[rate] {
			rate = p.Rate
		}
	}
	c.Link.Bandwidth, c.Link.Latency = rate, 2*first.Latency+g.SwitchLatency
	c.Link.Loss = configs.Loss{P: math.Round(first.Loss*(2-first.Loss)*1e15) / 1e15}
	c.NCCL.Speed = 0 // it was the speed of other ports
	for i, p := range g.Ports {
		if p.Rate != rate {
			c.Links = append(c.Links,
				configs.LinkOverride{Match: g.nic(i), LinkPatch: configs.LinkPatch{Bandwidth: &p.Rate}})
		}
	}
	return nil
}

// nic is NIC i of the fabric as files name it.
func (g *Graph) nic(i int) string { return fmt.Sprintf("node%d.nic%d", i/g.NICs, i%g.NICs) }

// bundle makes one trunk of all trunks between the same switches.
func (g *Graph) bundle() {
	at := map[[2]int]int{}
	var all []Trunk
	for _, t := range g.Trunks {
		if t.A > t.B {
			t.A, t.B, t.Latency, t.Back = t.B, t.A, t.Back, t.Latency
		}
		key := [2]int{t.A, t.B}
		if i, ok := at[key]; ok {
			all[i].Rate += t.Rate
			all[i].beside += 1 + t.beside
			continue
		}
		at[key] = len(all)
		all = append(all, t)
	}
	g.Trunks = all
}

// homes are the switches with NICs, in the order of the NICs.
func (g *Graph) homes() []int {
	var all []int
	seen := make([]bool, len(g.Switches))
	for _, p := range g.Ports {
		if !seen[p.Switch] {
			seen[p.Switch] = true
			all = append(all, p.Switch)
		}
	}
	return all
}

// parts is in how many parts the switches with NICs are that no trunk joins.
func (g *Graph) parts(homes []int) int {
	next := g.neighbours()
	seen := make([]bool, len(g.Switches))
	n := 0
	for _, s := range homes {
		if seen[s] {
			continue
		}
		n++
		order, _ := walk(next, s)
		for _, to := range order {
			seen[to] = true
		}
	}
	return n
}

// spines are the switches without NICs.
func (g *Graph) spines() []int {
	home := make([]bool, len(g.Switches))
	for _, p := range g.Ports {
		home[p.Switch] = true
	}
	var all []int
	for s, is := range home {
		if !is {
			all = append(all, s)
		}
	}
	return all
}

// isLeafSpine reports whether g is what the kind leaf-spine makes: all NICs of a node on one leaf, the nodes evenly
// and in order, and one link from each leaf to each spine.
func (g *Graph) isLeafSpine(leaves, spines []int) bool {
	for i, p := range g.Ports {
		if p.Switch != leaves[i/g.NICs*len(leaves)/g.Nodes] {
			return false
		}
	}
	return g.complete(leaves, spines)
}

// isRail reports whether g is what the kind rail makes.
func (g *Graph) isRail(rails, spines []int) bool {
	return g.onRails(rails) && g.complete(rails, spines)
}

// onRails reports whether NIC i of every node is on switch i of rails.
func (g *Graph) onRails(rails []int) bool {
	if g.NICs < 2 || len(rails) != g.NICs {
		return false
	}
	for i, p := range g.Ports {
		if p.Switch != rails[i%g.NICs] {
			return false
		}
	}
	return true
}

// railsApart reports whether g has rails and nothing that joins them.
func (g *Graph) railsApart() bool { return len(g.Trunks) == 0 && g.onRails(g.homes()) }

// complete reports whether the trunks are one from each leaf to each spine, all alike. A path has as many trunks up as
// down, so that only the sum of the latencies in the two directions counts.
func (g *Graph) complete(leaves, spines []int) bool {
	if len(spines) == 0 || len(spines) > topology.MaxSpines || len(g.Trunks) != len(leaves)*len(spines) {
		return false
	}
	first := g.Trunks[0]
	both := first.Latency + first.Back
	for _, t := range g.Trunks {
		if t.Rate != first.Rate || t.Loss != first.Loss || t.Latency+t.Back != both {
			return false
		}
		if slices.Contains(leaves, t.A) == slices.Contains(leaves, t.B) {
			return false
		}
	}
	return both%2 == 0
}

// uniform is the trunk of a topology whose trunks are all alike.
func (g *Graph) uniform() configs.LinkPatch {
	t := g.Trunks[0]
	t.Latency = (t.Latency + t.Back) / 2
	return patch(t.Link)
}

func patch(l Link) configs.LinkPatch {
	p := configs.LinkPatch{Bandwidth: &l.Rate, Latency: &l.Latency}
	if l.Loss > 0 {
		p.Loss = &configs.Loss{P: l.Loss}
	}
	return p
}
