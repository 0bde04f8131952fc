// SPDX-License-Identifier: Apache-2.0

package netgraph

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Take leaves the first nodes, as many as the user asks for, and notes it. 0 leaves all. unit is what the file calls a
// node.
func (g *Graph) Take(nodes int, unit string, out *found.Fabric) error {
	switch {
	case nodes > g.Nodes:
		return fmt.Errorf("has %s, --nodes asks for %d", units.Count(g.Nodes, unit), nodes)
	case nodes > 0 && nodes < g.Nodes:
		out.Note("the first %d of %s, and the switches that their paths use", nodes, units.Count(g.Nodes, unit))
	}
	g.First(nodes)
	return nil
}

// First leaves only the first nodes, and the switches and trunks that a shortest path between their NICs may
// use. It does nothing if g has no more nodes.
func (g *Graph) First(nodes int) {
	if nodes <= 0 || nodes >= g.Nodes {
		return
	}
	g.bundle()
	g.Nodes, g.Ports = nodes, g.Ports[:nodes*g.NICs]
	used := g.onPaths()
	g.Trunks = slices.DeleteFunc(slices.Clone(g.Trunks),
		func(t Trunk) bool { return !used[[2]int{t.A, t.B}] && !used[[2]int{t.B, t.A}] })
	keep := make([]bool, len(g.Switches))
	for _, p := range g.Ports {
		keep[p.Switch] = true
	}
	for _, t := range g.Trunks {
		keep[t.A], keep[t.B] = true, true
	}
	number := make([]int, len(g.Switches))
	var names []string
	for s, is := range keep {
		if number[s] = len(names); is {
			names = append(names, g.Switches[s])
		}
	}
	g.Switches = names
	g.Ports = slices.Clone(g.Ports)
	for i := range g.Ports {
		g.Ports[i].Switch = number[g.Ports[i].Switch]
	}
	for i := range g.Trunks {
		g.Trunks[i].A, g.Trunks[i].B = number[g.Trunks[i].A], number[g.Trunks[i].B]
	}
}

// onPaths are the directed links, as pairs of switches, that are on a shortest path from one switch with NICs to
// another.
func (g *Graph) onPaths() map[[2]int]bool {
	next := g.neighbours()
	home := make([]bool, len(g.Switches))
	for _, p := range g.Ports {
		home[p.Switch] = true
	}
	used := map[[2]int]bool{}
	for _, source := range g.homes() {
		order, distance := walk(next, source)
		leads := slices.Clone(home) // whether a shortest path from the source to a switch with NICs goes through it
		for _, s := range slices.Backward(order) {
			for _, to := range next[s] {
				if distance[to] == distance[s]+1 && leads[to] {
					leads[s], used[[2]int{s, to}] = true, true
				}
			}
		}
	}
	return used
}

// neighbours are the switches to which each switch has a trunk.
func (g *Graph) neighbours() [][]int {
	next := make([][]int, len(g.Switches))
	for _, t := range g.Trunks {
		next[t.A], next[t.B] = append(next[t.A], t.B), append(next[t.B], t.A)
	}
	return next
}

// walk is a breadth-first search: the switches in the order in which it finds them, and their distances; -1 for those
// that it does not find.
func walk(next [][]int, source int) (order, distance []int) {
	distance = slices.Repeat([]int{-1}, len(next))
	distance[source] = 0
	order = []int{source}
	for i := 0; i < len(order); i++ {
		for _, to := range next[order[i]] {
			if distance[to] < 0 {
				distance[to] = distance[order[i]] + 1
				order = append(order, to)
			}
		}
	}
	return order, distance
}
