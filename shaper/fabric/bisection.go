// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Bisection is the bandwidth between the first half of the nodes and the second, in
// one direction.
type Bisection struct {
	// LineRate is what all ways between the halves carry together at most: the least
	// cut between them (Ford and Fulkerson 1956); Unlimited if nothing limits it.
	LineRate units.Bandwidth
	// Cut says that the halves do not reach each other at all; LineRate means nothing.
	Cut bool
	// Full is what the nodes of the smaller half send at most.
	Full units.Bandwidth
}

// Bisection computes the bandwidth between halves of the nodes, in the order of their
// numbers. It is of the links, whatever the routes use of it; links that are down
// carry nothing.
func (f *Fabric) Bisection() Bisection {
	half := f.Config.Nodes / 2
	g := &flowGraph{}
	source, sink := g.node(), g.node()
	var switches []int
	if f.Net == nil {
		switches = []int{g.node()}
	} else {
		for range f.Net.Switches {
			switches = append(switches, g.node())
		}
	}
	b := Bisection{}
	for n := range f.NICs() {
		home := switches[0]
		if f.Net != nil {
			home = switches[f.Net.Home[n]]
		}
		if f.NodeOfNIC(n) < half {
			g.edge(source, home, f.capacity(2*n))
			b.Full += units.Bandwidth(f.Hops[2*n].Spec.Bandwidth)
		} else {
			g.edge(home, sink, f.capacity(2*n+1))
		}
	}
	for i, h := range f.Hops {
		if h.Kind == Trunk {
			g.edge(switches[h.Src], switches[h.Dst], f.capacity(i))
		}
	}
	if half == 0 {
		return b
	}
	if rate := g.maxFlow(source, sink); rate < unlimited {
		b.Cut = rate == 0
		b.LineRate = units.Bandwidth(rate)
	} else {
		b.LineRate = units.Unlimited
	}
	return b
}

// unlimited stands for a rate without bound: more than all others together.
const unlimited = 1 << 60

func (f *Fabric) capacity(hop int) uint64 {
	switch s := &f.Hops[hop].Spec; {
	case s.Down:
		return 0
	case s.Bandwidth == 0:
		return unlimited
	default:
		return s.Bandwidth
	}
}

// flowGraph is a network for the largest flow from one node to another. Edge i and i^1
// are each other's reverse.
type flowGraph struct {
	out  [][]int
	to   []int
	left []uint64 // of each edge's capacity
}

func (g *flowGraph) node() int {
	g.out = append(g.out, nil)
	return len(g.out) - 1
}

func (g *flowGraph) edge(from, to int, capacity uint64) {
	g.out[from] = append(g.out[from], len(g.to))
	g.out[to] = append(g.out[to], len(g.to)+1)
	g.to, g.left = append(g.to, to, from), append(g.left, capacity, 0)
}

// maxFlow augments along shortest ways until there is none (Edmonds and Karp 1972).
func (g *flowGraph) maxFlow(source, sink int) uint64 {
	total := uint64(0)
	for {
		way := g.shortest(source, sink)
		if way == nil || total >= unlimited {
			return total
		}
		least := g.left[slices.MinFunc(way, func(a, b int) int { return cmp.Compare(g.left[a], g.left[b]) })]
		for _, e := range way {
			g.left[e] -= least
			g.left[e^1] += least
		}
		total += least
	}
}

// shortest is the edges of the shortest way with capacity left, nil if there is none.
func (g *flowGraph) shortest(source, sink int) []int {
	by := slices.Repeat([]int{-1}, len(g.out))
	queue := []int{source}
	for len(queue) > 0 && by[sink] < 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range g.out[at] {
			if to := g.to[e]; g.left[e] > 0 && by[to] < 0 && to != source {
				by[to] = e
				queue = append(queue, to)
			}
		}
	}
	if by[sink] < 0 {
		return nil
	}
	var way []int
	for at := sink; at != source; {
		e := by[at]
		way = append(way, e)
		at = g.to[e^1]
	}
	return way
}
