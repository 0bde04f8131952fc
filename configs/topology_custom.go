// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/topology"
)

// customGraph is graph for the kind custom, whose switches and links the user named.
func (f *Fabric) customGraph() (*topology.Graph, []int, error) {
	t, g := &f.Topology, &topology.Graph{}
	if len(t.Switches) == 0 || len(t.Switches) > topology.MaxSwitches {
		return nil, nil, Errorf("topology.switches", "has %d names: must have 1 to %d", len(t.Switches),
			topology.MaxSwitches)
	}
	for i, name := range t.Switches {
		if !validSwitch(name) || slices.Contains(g.Switches, name) {
			return nil, nil, Errorf(fmt.Sprintf("topology.switches[%d]", i), "%q: must be a unique name: %s", name,
				switchHelp)
		}
		g.Switches, g.Zones, g.Zone = append(g.Switches, name), append(g.Zones, name), append(g.Zone, i)
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
			return Errorf(field+".switch", "%w", Unknown("switch", a.Switch, g.Switches))
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

// join adds the links. given is the index of each in Topology.Links.
func (f *Fabric) join(g *topology.Graph) (given []int, err error) {
	for i := range f.Topology.Links {
		s := &f.Topology.Links[i]
		field := fmt.Sprintf("topology.links[%d].between", i)
		from, to, oneWay := cutLink(s.Between)
		x, y := slices.Index(g.Switches, from), slices.Index(g.Switches, to)
		if x < 0 || y < 0 || x == y {
			return nil, Errorf(field, "%q: must name two of the switches, as a:b for both directions or a>b for one",
				s.Between)
		}
		links := []topology.Link{{From: x, To: y, Cost: 1}, {From: y, To: x, Cost: 1}}
		if oneWay {
			links = links[:1]
		}
		for _, l := range links {
			if slices.Contains(g.Links, l) {
				return nil, Errorf(field, "%s is joined to %s already: give one link with the rate of both",
					g.Switches[l.From], g.Switches[l.To])
			}
			g.Links, given = append(g.Links, l), append(given, i)
		}
	}
	return given, nil
}

// cutLink splits a link written as a:b or a>b into its ends.
func cutLink(s string) (from, to string, oneWay bool) {
	from, to, ok := strings.Cut(s, ":")
	if !ok {
		from, to, oneWay = strings.Cut(s, ">")
	}
	return strings.TrimSpace(from), strings.TrimSpace(to), oneWay
}

// userRoutes are the paths that the user gave.
func (f *Fabric) userRoutes(g *topology.Graph) (topology.UserRoutes, error) {
	type route struct {
		p            Pattern
		via, reverse []int
	}
	routes := make([]route, len(f.Topology.Routes))
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
			return nil, Errorf(field+".match", "%q: must name two nodes or NICs, as node0:node1 or node0>node1",
				r.Match)
		}
		if len(r.Via) == 0 {
			return nil, Errorf(field+".via", "missing: give all switches on the path, from the first to the last")
		}
		routes[i].p = p
		for k, name := range r.Via {
			at := slices.Index(g.Switches, name)
			if at < 0 {
				return nil, Errorf(fmt.Sprintf("%s.via[%d]", field, k), "%w", Unknown("switch", name, g.Switches))
			}
			if slices.Contains(routes[i].via, at) {
				return nil, Errorf(fmt.Sprintf("%s.via[%d]", field, k),
					"%s is on the path already: a route has no loop", name)
			}
			routes[i].via = append(routes[i].via, at)
		}
		routes[i].reverse = slices.Clone(routes[i].via)
		slices.Reverse(routes[i].reverse)
	}
	return func(src, dst int) []int {
		from, to := f.end(src), f.end(dst)
		for _, r := range slices.Backward(routes) {
			if r.p.From.matches(from) && r.p.To.matches(to) {
				return r.via
			}
			if !r.p.OneWay && r.p.From.matches(to) && r.p.To.matches(from) {
				return r.reverse
			}
		}
		return nil
	}, nil
}
