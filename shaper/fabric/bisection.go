// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Bisection is the bandwidth between the first half of the nodes and the others.
type Bisection struct{ There, Back Cut }

// Cut is the bandwidth from some nodes to all others, in one direction.
type Cut struct {
	// LineRate is what all links between them carry together at most; Unlimited if
	// nothing limits it.
	LineRate units.Bandwidth
	// None says that nothing gets there at all; LineRate means nothing.
	None bool
	// Full is what the NICs of the first half send, or receive, at most.
	Full units.Bandwidth
}

// Bisection computes the bandwidth between halves of the nodes, in the order of their
// numbers. It is of the links, whatever the routes use of it; links that are down
// carry nothing.
func (f *Fabric) Bisection() Bisection {
	half := f.NIC(f.Config.Nodes/2, 0)
	if half == 0 {
		return Bisection{}
	}
	b := Bisection{
		There: f.cut(func(nic int) bool { return nic < half }),
		Back:  f.cut(func(nic int) bool { return nic >= half }),
	}
	there, back := uint64(0), uint64(0)
	for n := range half {
		there, back = there+f.capacity(2*n), back+f.capacity(2*n+1)
	}
	b.There.Full, b.Back.Full = lineRate(there), lineRate(back)
	return b
}

// lineRate is a sum of capacities as a rate.
func lineRate(sum uint64) units.Bandwidth {
	if sum >= unlimited {
		return units.Unlimited
	}
	return units.Bandwidth(sum)
}

// cut is the bandwidth from the NICs that from says to all others: the least cut of
// ports, links of pairs and links between switches (Ford and Fulkerson 1956). What a
// pair's link lets through may go over links between switches that others share, which
// no flow of one kind describes; so it is the lesser of two: of ports and pairs alone,
// and of all, but with the links of a NIC to other switches taken together.
func (f *Fabric) cut(from func(nic int) bool) Cut {
	rate := f.flow(from, func(_, _ int) bool { return true })
	if f.Net != nil {
		rate = min(rate, f.flow(from, func(src, dst int) bool { return f.Net.Home[src] == f.Net.Home[dst] }))
	}
	return Cut{LineRate: lineRate(rate), None: rate == 0}
}

// flow is the largest flow from the NICs that from says to all others. The links of
// pairs that are direct join two NICs; those of others join a NIC to its switch.
func (f *Fabric) flow(from func(nic int) bool, direct func(src, dst int) bool) uint64 {
	g := &flowGraph{}
	source, sink := g.node(), g.node()
	nics, switches := g.nodes(f.NICs()), []int(nil)
	if f.Net != nil {
		switches = g.nodes(len(f.Net.Switches))
	}
	shared := make([]uint64, f.NICs()) // what all its links to other switches carry
	for i, h := range f.Hops {
		switch {
		case h.Kind == TxPort && from(h.Src):
			g.edge(source, nics[h.Src], f.capacity(i))
		case h.Kind == RxPort && !from(h.Src):
			g.edge(nics[h.Src], sink, f.capacity(i))
		case h.Kind == Trunk:
			g.edge(switches[h.Src], switches[h.Dst], f.capacity(i))
		case h.Kind != Link || !from(h.Src) || from(h.Dst):
		case direct(h.Src, h.Dst):
			g.edge(nics[h.Src], nics[h.Dst], f.capacity(i))
		default:
			shared[h.Src] = min(unlimited, shared[h.Src]+f.capacity(i))
			shared[h.Dst] = min(unlimited, shared[h.Dst]+f.capacity(i))
		}
	}
	for n, rate := range shared {
		switch {
		case f.Net == nil:
		case from(n):
			g.edge(nics[n], switches[f.Net.Home[n]], rate)
		default:
			g.edge(switches[f.Net.Home[n]], nics[n], rate)
		}
	}
	return g.maxFlow(source, sink)
}

// unlimited stands for a rate without bound: more than all others together, and so
// little that those of all NICs can be added up.
const unlimited = 1 << 55

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

// nodes adds n nodes.
func (g *flowGraph) nodes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = g.node()
	}
	return all
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
