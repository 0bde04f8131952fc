// SPDX-License-Identifier: Apache-2.0

// Package htsim reads topology files of htsim: fat trees of two or three tiers.
//
//	Nodes 32
//	Tiers 2
//	Podsize 32
//
//	Tier 0
//	Downlink_speed_Gbps 100
//	Radix_Down 8
//	Radix_Up 2
//	...
//
// Layout and checks: csg-htsim 841d9e7 and uet-htsim 40ccb05, datacenter/fat_tree_topology.cpp. Hosts are on the
// switches of tier 0. Those of tier 1 are on all switches of tier 0 of their pod, or of the network if there are two
// tiers. Each switch of tier 1 has its own group of switches of tier 2, which it shares with those at its place in the
// other pods.
package htsim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/importer/netgraph"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Kind of file, for people.
const Kind = "topology of htsim"

// maxHosts bounds the memory.
const maxHosts = 1 << 20

const maxTiers = 3

// tier is a section of the file. Its links are those down from its switches.
type tier struct {
	given                               bool
	rate, radixUp, radixDown            int // rate in Gb/s
	over, bundle                        int
	linkLatency, switchLatency          int // ns
	latencyGiven, overGiven, queueGiven bool
}

type file struct {
	nodes, tiers, podsize int
	tier                  [maxTiers]tier
}

// Looks reports whether the first line of a file begins a topology.
func Looks(line string) bool {
	f := strings.Fields(strings.ToLower(line))
	return len(f) == 2 && (f[0] == "nodes" || f[0] == "tiers" || f[0] == "podsize") &&
		strings.Trim(f[1], "0123456789") == ""
}

// Read reads a topology.
func Read(text string, o found.Options) (*found.Fabric, error) {
	f, err := parse(text)
	if err != nil {
		return nil, err
	}
	out := o.Start(Kind)
	s, err := f.shape()
	if err != nil {
		return nil, err
	}
	out.Say("%s, %s; switches: %d in tier 0, %d in tier 1, %d in tier 2", units.Count(f.nodes, "host"),
		units.Count(f.tiers, "tier"), s.tors, s.aggs, s.cores)
	for i := range f.tiers {
		if !f.tier[i].latencyGiven {
			return nil, fmt.Errorf(
				"tier %d has no Downlink_Latency_ns: htsim takes its flag -hop_latency; write it into the "+
					"file", i)
		}
	}
	g := f.graph(s)
	if err := g.Take(o.Nodes, "host", out); err != nil {
		return nil, err
	}
	if err := g.Apply(out); err != nil {
		return nil, err
	}
	out.Config.Node.GPUs, out.Config.GPUsPerNode = 1, 1
	f.notes(out)
	return out, nil
}

// notes says what htsim has otherwise.
func (f *file) notes(out *found.Fabric) {
	queues := 0
	for _, t := range f.tier {
		if t.queueGiven {
			queues++
		}
	}
	if queues > 0 {
		out.Note(
			"Queue_Up and Queue_Down of %s are left out: what a full queue does is a flag of htsim; here the queue is "+
				"%v, --set link.queue=LIMIT changes it", units.Count(queues, "tier"), out.Config.Link.Queue)
	} else {
		out.Note(
			"queues, packets and congestion control are flags of htsim: here the queue is %v, and packets have %d bytes", out.Config.Link.Queue, out.Config.Link.MTU)
	}
	if f.tiers > 1 {
		out.Note(
			"how packets choose among equal paths is a flag of htsim; here each pair of NICs has one of them, with " +
				"--set topology.ecmp=flow each connection")
	}
}

// parse reads the text by htsim's rules: words apart by spaces, keys in any case.
func parse(text string) (*file, error) {
	f := &file{}
	for i := range f.tier {
		f.tier[i].over, f.tier[i].bundle = 1, 1
	}
	now := -1
	for i, line := range strings.Split(text, "\n") {
		w := strings.Fields(line)
		if len(w) == 0 || strings.HasPrefix(w[0], "#") {
			continue
		}
		if len(w) < 2 {
			return nil, fmt.Errorf("line %d: %q has no value", i+1, w[0])
		}
		v, err := strconv.Atoi(w[1])
		if err != nil || v < 0 || v > 1<<30 {
			return nil, fmt.Errorf("line %d: %s is %q: must be a whole number", i+1, w[0], w[1])
		}
		if err := f.set(&now, strings.ToLower(w[0]), v); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if f.nodes == 0 || f.tiers == 0 || f.podsize == 0 {
		return nil, errors.New("has no Nodes, Tiers or Podsize: a topology of htsim begins with them")
	}
	for i := range f.tiers {
		if !f.tier[i].given {
			return nil, fmt.Errorf("has no section Tier %d of %s", i, units.Count(f.tiers, "tier"))
		}
	}
	return f, nil
}

// set sets the value of a key. now is the tier that the last line Tier began, -1 before the first one.
func (f *file) set(now *int, key string, v int) error {
	switch key {
	case "nodes", "tiers", "podsize":
		if *now >= 0 {
			return fmt.Errorf("%s stands after Tier %d: htsim has it before the tiers", key, *now)
		}
		if key == "tiers" && v != 2 && v != maxTiers {
			return fmt.Errorf("%d tiers: htsim has 2 or 3", v)
		}
		if v > maxHosts {
			return fmt.Errorf("%s is %d: at most %d", key, v, maxHosts)
		}
		*map[string]*int{"nodes": &f.nodes, "tiers": &f.tiers, "podsize": &f.podsize}[key] = v
		return nil
	case "tier":
		if v >= maxTiers || f.tier[v].given {
			return fmt.Errorf("tier %d is not one of 0 to 2, or is there twice", v)
		}
		*now = v
		f.tier[v].given = true
		return nil
	}
	if *now < 0 {
		return fmt.Errorf("%q is not a key of the head, which has Nodes, Tiers and Podsize", key)
	}
	return f.tier[*now].set(key, v)
}

// set sets the value of a key of the section.
func (t *tier) set(key string, v int) error {
	switch key {
	case "downlink_speed_gbps":
		t.rate = v
	case "radix_up":
		t.radixUp = v
	case "radix_down":
		t.radixDown = v
	case "queue_up", "queue_down":
		t.queueGiven = true
	case "oversubscribed":
		t.over, t.overGiven = v, true
	case "bundle":
		t.bundle = v
	case "switch_latency_ns":
		t.switchLatency = v
	case "downlink_latency_ns":
		t.linkLatency, t.latencyGiven = v, true
	default:
		return fmt.Errorf(
			"%q is not a key of a tier: htsim has Downlink_speed_Gbps, Radix_Up, Radix_Down, Queue_Up, Queue_Down, "+
				"Oversubscribed, Bundle, Switch_Latency_ns and Downlink_Latency_ns", key)
	}
	return nil
}

// shape is how many switches there are: tors in tier 0, aggs in tier 1, cores in tier 2.
type shape struct {
	pods, torsPerPod, aggsPerPod int
	tors, aggs, cores            int
}

// shape computes the switches, and refuses what htsim refuses.
func (f *file) shape() (s shape, err error) {
	for i := range f.tiers {
		t := &f.tier[i]
		top := i == f.tiers-1
		switch {
		case t.radixDown == 0 || t.bundle == 0 || t.over == 0 || !top && t.radixUp == 0:
			return s, fmt.Errorf(
				"tier %d: Radix_Down, Bundle, Oversubscribed and below the top Radix_Up must be 1 or more",
				i)
		case i == maxTiers-1 && t.radixUp != 0:
			return s, errors.New("tier 2 has Radix_Up: there is no tier above it")
		case t.radixDown%t.bundle != 0 || !top && t.radixUp%f.tier[i+1].bundle != 0:
			return s, fmt.Errorf("tier %d: the number of ports is not a multiple of the bundle", i)
		}
		if t.rate == 0 && i > 0 {
			return s, fmt.Errorf("tier %d has no Downlink_speed_Gbps", i)
		}
	}
	if f.tier[0].rate == 0 {
		return s, errors.New(
			"tier 0 has no Downlink_speed_Gbps: htsim takes its flag -linkspeed; write it into the file")
	}
	t0, t1 := &f.tier[0], &f.tier[1]
	if f.nodes%f.podsize != 0 || f.podsize%t0.radixDown != 0 || t0.bundle != 1 {
		return s, fmt.Errorf(
			"%d nodes in pods of %d on switches of %d ports, bundle %d: each must be a multiple of the next, and "+
				"the bundle 1", f.nodes, f.podsize, t0.radixDown, t0.bundle)
	}
	s.pods, s.torsPerPod = f.nodes/f.podsize, f.podsize/t0.radixDown
	s.tors = s.pods * s.torsPerPod
	if f.tiers == 2 && s.pods > 1 {
		return s, fmt.Errorf("%d pods and two tiers: nothing joins the pods", s.pods)
	}
	uplinks := s.tors * t0.radixUp
	if t0.radixUp%t1.bundle != 0 || uplinks%t1.radixDown != 0 {
		return s, fmt.Errorf("%d uplinks of tier 0 do not fill switches of tier 1 with %d ports", uplinks, t1.radixDown)
	}
	s.aggsPerPod = t0.radixUp / t1.bundle
	s.aggs = s.pods * s.aggsPerPod
	if s.aggs*t1.radixDown != uplinks {
		return s, fmt.Errorf("tier 1 has %s with %d ports for %d uplinks of tier 0", units.Count(s.aggs, "switch"),
			t1.radixDown, uplinks)
	}
	if err := f.subscribed(0, t0.radixDown*t0.rate, t0.radixUp*t1.rate); err != nil || f.tiers == 2 {
		return s, err
	}
	t2 := &f.tier[2]
	groups := t1.radixUp / t2.bundle // cores of each agg
	s.cores = groups * s.aggsPerPod
	if s.pods*t2.bundle != t2.radixDown {
		return s, fmt.Errorf("tier 2 has %d ports for bundles of %d to %d pods", t2.radixDown, t2.bundle, s.pods)
	}
	return s, f.subscribed(1, t1.radixDown*t1.rate, t1.radixUp*t2.rate)
}

// subscribed checks Oversubscribed against the rates down and up of a switch.
func (f *file) subscribed(tier, down, up int) error {
	if t := &f.tier[tier]; t.overGiven && up*t.over != down {
		return fmt.Errorf("tier %d is Oversubscribed %d, but its switches have %d Gb/s down and %d Gb/s up", tier,
			t.over, down, up)
	}
	return nil
}

// graph is the network. A trunk has the latency of the switch to which it leads.
func (f *file) graph(s shape) *netgraph.Graph {
	g := &netgraph.Graph{Nodes: f.nodes, NICs: 1, SwitchLatency: ns(f.tier[0].switchLatency)}
	name := func(kind string, n int) { g.Switches = append(g.Switches, kind+strconv.Itoa(n)) }
	for i := range s.tors {
		name("tor", i)
	}
	for i := range s.aggs {
		name("agg", i)
	}
	for i := range s.cores {
		name("core", i)
	}
	for n := range f.nodes {
		g.Ports = append(g.Ports,
			netgraph.Port{Switch: n / f.tier[0].radixDown,
				Link: netgraph.Link{Rate: gbps(f.tier[0].rate), Latency: ns(f.tier[0].linkLatency)}})
	}
	join := func(low, high, upper int) {
		t := &f.tier[upper]
		for range t.bundle {
			g.Trunks = append(g.Trunks, netgraph.Trunk{
				A: low, B: high, Link: netgraph.Link{Rate: gbps(t.rate), Latency: ns(t.linkLatency + t.switchLatency)},
				Back: ns(t.linkLatency + f.tier[upper-1].switchLatency),
			})
		}
	}
	for tor := range s.tors {
		for i := range s.aggsPerPod {
			join(tor, s.tors+tor/s.torsPerPod*s.aggsPerPod+i, 1)
		}
	}
	for agg := range s.aggs {
		for core := agg % s.aggsPerPod; core < s.cores; core += s.aggsPerPod {
			join(s.tors+agg, s.tors+s.aggs+core, 2)
		}
	}
	return g
}

func gbps(n int) units.Bandwidth { return units.Bandwidth(n) * units.Gbps }

func ns(n int) time.Duration { return min(time.Duration(n)*time.Nanosecond, 2*configs.MaxLatency) }
