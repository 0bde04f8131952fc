// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Bisection is the bandwidth between the first half of the nodes and the others.
type Bisection struct{ There, Back Cut }

// Cut is the bandwidth from one set of nodes to all others, in one direction.
type Cut struct {
	// LineRate is the most that all links between them carry together; Unlimited if
	// nothing limits it.
	LineRate units.Bandwidth
	// None is true if no link that is up joins them. LineRate is not valid then.
	None bool
	// Full is the most that the NICs of the first half can send, or receive.
	Full units.Bandwidth
}

// Bisection computes the bandwidth between the first half of the nodes, by number, and
// the second. It is the capacity of the links; routes may use less of it. Links that are
// down have no capacity.
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

// lineRate converts a sum of capacities to a rate.
func lineRate(sum uint64) units.Bandwidth {
	if sum >= unlimited {
		return units.Unlimited
	}
	return units.Bandwidth(sum)
}

// cut is the bandwidth from the NICs for which from is true to all others: the minimum
// cut of ports, links of pairs and trunks (Ford and Fulkerson 1956). Each pair has a
// link of its own but shares trunks, which would need a flow for each pair. So cut
// is the lesser of two bounds: the bound of ports and links of pairs alone, and the bound of
// everything, where the links of a NIC to NICs on other switches are added up.
func (f *Fabric) cut(from func(nic int) bool) Cut {
	rate := f.flow(from, func(_, _ int) bool { return true })
	if f.Net != nil {
		rate = min(rate, f.flow(from, func(src, dst int) bool { return f.Net.Home[src] == f.Net.Home[dst] }))
	}
	return Cut{LineRate: lineRate(rate), None: rate == 0}
}

// flow is the maximum flow from the NICs for which from is true to all others. Links of
// pairs for which direct is true join two NICs; the others join a NIC to its switch.
func (f *Fabric) flow(from func(nic int) bool, direct func(src, dst int) bool) uint64 {
	g := &flowGraph{}
	source, sink := g.node(), g.node()
	nics, switches := g.nodes(f.NICs()), []int(nil)
	if f.Net != nil {
		switches = g.nodes(len(f.Net.Switches))
	}
	shared := make([]uint64, f.NICs()) // capacity of all links of a NIC to other switches
	for i, h := range f.Hops {
		switch {
		case h.Kind == link.TxPort && from(h.Src):
			g.edge(source, nics[h.Src], f.capacity(i))
		case h.Kind == link.RxPort && !from(h.Src):
			g.edge(nics[h.Src], sink, f.capacity(i))
		case h.Kind == link.Trunk:
			g.edge(switches[h.Src], switches[h.Dst], f.capacity(i))
		case h.Kind != link.Link || !from(h.Src) || from(h.Dst):
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

// unlimited is the capacity of a link of unlimited bandwidth: more than the sum of all
// limited ones, and small enough for the capacities of all NICs to be added up.
const unlimited = 1 << 55

// capacity is the rate of a hop as an edge of the graph; 0 if it is down.
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

// flowGraph is the residual network of a maximum flow. Edges i and i^1 are each other's
// reverse.
type flowGraph struct {
	out      [][]int // edges, by the node where they begin
	to       []int   // node where each edge ends
	residual []uint64
}

// node adds a node.
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

// edge adds an edge and its reverse, which has no capacity.
func (g *flowGraph) edge(from, to int, capacity uint64) {
	g.out[from] = append(g.out[from], len(g.to))
	g.out[to] = append(g.out[to], len(g.to)+1)
	g.to, g.residual = append(g.to, to, from), append(g.residual, capacity, 0)
}

// maxFlow augments along shortest paths until there is none (Edmonds and Karp 1972).
func (g *flowGraph) maxFlow(source, sink int) uint64 {
	total := uint64(0)
	for {
		path := g.shortest(source, sink)
		if path == nil || total >= unlimited {
			return total
		}
		least := g.residual[slices.MinFunc(path,
			func(a, b int) int { return cmp.Compare(g.residual[a], g.residual[b]) })]
		for _, e := range path {
			g.residual[e] -= least
			g.residual[e^1] += least
		}
		total += least
	}
}

// shortest is the edges of the shortest path with residual capacity, nil if there is none.
func (g *flowGraph) shortest(source, sink int) []int {
	by := slices.Repeat([]int{-1}, len(g.out))
	queue := []int{source}
	for len(queue) > 0 && by[sink] < 0 {
		at := queue[0]
		queue = queue[1:]
		for _, e := range g.out[at] {
			if to := g.to[e]; g.residual[e] > 0 && by[to] < 0 && to != source {
				by[to] = e
				queue = append(queue, to)
			}
		}
	}
	if by[sink] < 0 {
		return nil
	}
	var path []int
	for at := sink; at != source; {
		e := by[at]
		path = append(path, e)
		at = g.to[e^1]
	}
	return path
}
