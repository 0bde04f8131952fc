// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/topology"
)

// customGraph is graph for the switches and links that a user named.
func (f *Fabric) customGraph() (*topology.Graph, []int, error) {
	t, g := &f.Topology, &topology.Graph{}
	if len(t.Switches) == 0 || len(t.Switches) > topology.MaxSwitches {
		return nil, nil, Errorf("topology.switches", "has %d names: must have 1 to %d", len(t.Switches), topology.MaxSwitches)
	}
	for i, name := range t.Switches {
		if !validSwitch(name) || slices.Contains(g.Switches, name) {
			return nil, nil, Errorf(fmt.Sprintf("topology.switches[%d]", i), "%q: must be a name of its own: %s", name, switchHelp)
		}
		g.Switches, g.Parts, g.Part = append(g.Switches, name), append(g.Parts, name), append(g.Part, i)
	}
	if err := f.attach(g); err != nil {
		return nil, nil, err
	}
	given, err := f.join(g)
	return g, given, err
}

// attach finds the switch of each NIC.
func (f *Fabric) attach(g *topology.Graph) error {
	g.Home = slices.Repeat([]int{-1}, f.Nodes*f.NICsPerNode)
	for i, a := range f.Topology.Attach {
		field := fmt.Sprintf("topology.attach[%d]", i)
		p, err := ParsePattern(a.Match)
		if err == nil {
			err = p.Check(f)
		}
		if err != nil {
			return Errorf(field+".match", "%w", err)
		}
		if !p.Ports || p.Trunk() {
			return Errorf(field+".match", "%q: must name a node or a NIC: node0, node0.nic1 or *", a.Match)
		}
		at := slices.Index(g.Switches, a.Switch)
		if at < 0 {
			return Errorf(field+".switch", "%w", unknown("switch", a.Switch, g.Switches))
		}
		for n := range g.Home {
			if p.MatchPorts(f.end(n)) {
				g.Home[n] = at
			}
		}
	}
	if n := slices.Index(g.Home, -1); n >= 0 {
		return Errorf("topology.attach", "%s is on no switch: attach it to one", f.end(n))
	}
	return nil
}

// join adds the links, and says which of Topology.Links each is.
func (f *Fabric) join(g *topology.Graph) (given []int, err error) {
	for i := range f.Topology.Links {
		s := &f.Topology.Links[i]
		field := fmt.Sprintf("topology.links[%d].between", i)
		from, to, oneWay := cutLink(s.Between)
		x, y := slices.Index(g.Switches, from), slices.Index(g.Switches, to)
		if x < 0 || y < 0 || x == y {
			return nil, Errorf(field, "%q: must name two of the switches, as a:b for both directions or a>b for one", s.Between)
		}
		links := []topology.Link{{From: x, To: y, Cost: 1}, {From: y, To: x, Cost: 1}}
		if oneWay {
			links = links[:1]
		}
		for _, l := range links {
			if slices.Contains(g.Links, l) {
				return nil, Errorf(field, "%s is joined to %s already: give one link with the rate of both", g.Switches[l.From], g.Switches[l.To])
			}
			g.Links, given = append(g.Links, l), append(given, i)
		}
	}
	return given, nil
}

// cutLink is the ends of a link as a:b or a>b.
func cutLink(s string) (from, to string, oneWay bool) {
	from, to, ok := strings.Cut(s, ":")
	if !ok {
		from, to, oneWay = strings.Cut(s, ">")
	}
	return strings.TrimSpace(from), strings.TrimSpace(to), oneWay
}

// givenRoutes is the ways that the user gave.
func (f *Fabric) givenRoutes(g *topology.Graph) (topology.Given, error) {
	type way struct {
		p         Pattern
		via, back []int
	}
	ways := make([]way, len(f.Topology.Routes))
	for i, r := range f.Topology.Routes {
		field := fmt.Sprintf("topology.routes[%d]", i)
		p, err := ParsePattern(r.Match)
		if err == nil {
			err = p.Check(f)
		}
		if err != nil {
			return nil, Errorf(field+".match", "%w", err)
		}
		if p.Ports || p.Trunk() {
			return nil, Errorf(field+".match", "%q: must name two nodes or NICs, as node0:node1 or node0>node1", r.Match)
		}
		if len(r.Via) == 0 {
			return nil, Errorf(field+".via", "missing: give the switches on the way, the first and the last one too")
		}
		ways[i].p = p
		for k, name := range r.Via {
			at := slices.Index(g.Switches, name)
			if at < 0 {
				return nil, Errorf(fmt.Sprintf("%s.via[%d]", field, k), "%w", unknown("switch", name, g.Switches))
			}
			if slices.Contains(ways[i].via, at) {
				return nil, Errorf(fmt.Sprintf("%s.via[%d]", field, k), "%s is on the way already: a route goes in no circle", name)
			}
			ways[i].via = append(ways[i].via, at)
		}
		ways[i].back = slices.Clone(ways[i].via)
		slices.Reverse(ways[i].back)
	}
	return func(src, dst int) []int {
		from, to := f.end(src), f.end(dst)
		for _, w := range slices.Backward(ways) {
			if w.p.From.matches(from) && w.p.To.matches(to) {
				return w.via
			}
			if !w.p.OneWay && w.p.From.matches(to) && w.p.To.matches(from) {
				return w.back
			}
		}
		return nil
	}, nil
}
