// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Routes are the paths between NICs.
type Routes struct {
	NICs  int
	Paths [][]int // links between switches, by src*NICs+dst

	Flows *FlowRoutes // nil if all flows of a pair use the pair's path
}

// FlowRoutes is what the path of a single flow is drawn from.
type FlowRoutes struct {
	Graph  *Graph
	Out    [][]int       // links that leave each switch
	Toward map[int][]int // by switch: the least cost to it from each switch
	Given  map[int]bool  // pairs, src*NICs+dst, whose path the user gave
	Seed   uint64
}

// Path is the links from NIC src to NIC dst, none if both are on one switch.
func (r *Routes) Path(src, dst int) []int { return r.Paths[src*r.NICs+dst] }

// PerFlow says whether each flow of a pair has a path of its own.
func (r *Routes) PerFlow() bool { return r.Flows != nil }

// FlowPath is the links that a flow from NIC src to NIC dst uses. id stands for what a switch hashes of it.
func (r *Routes) FlowPath(src, dst int, id uint64) []int {
	f := r.Flows
	if f == nil || f.Given[src*r.NICs+dst] {
		return r.Path(src, dst)
	}
	path, _ := f.Graph.walk(f.Out, f.Toward[f.Graph.Home[dst]], src, dst, rand.NewPCG(f.Seed, id))
	return path
}

// Several reports whether flows between some two NICs have more than one path. It is known with paths per flow.
func (r *Routes) Several() bool {
	f := r.Flows
	if f == nil {
		return false
	}
	seen := map[[2]int]bool{} // all NICs of a switch have the paths of one
	for src, from := range f.Graph.Home {
		for dst, to := range f.Graph.Home {
			if ends := [2]int{from, to}; from != to && !seen[ends] && !f.Given[src*r.NICs+dst] {
				seen[ends] = true
				if len(r.All(src, dst)) > 1 {
					return true
				}
			}
		}
	}
	return false
}

// All are the paths that flows from NIC src to NIC dst can use.
func (r *Routes) All(src, dst int) [][]int {
	f := r.Flows
	if f == nil || f.Given[src*r.NICs+dst] {
		return [][]int{r.Path(src, dst)}
	}
	g, cost := f.Graph, f.Toward[f.Graph.Home[dst]]
	var all [][]int
	var extend func(at int, path []int)
	extend = func(at int, path []int) {
		if at == g.Home[dst] {
			all = append(all, slices.Clone(path))
			return
		}
		for _, i := range g.nearer(f.Out, cost, at) {
			extend(g.Links[i].To, append(path, i))
		}
	}
	extend(g.Home[src], nil)
	return all
}

// NoPath is the error for two NICs without a path between them.
type NoPath struct {
	Src, Dst int    // NICs
	Why      string // with the names of switches
}

// Error gives the reason without the NICs.
func (e *NoPath) Error() string { return e.Why }

// UserRoutes returns the switches on the path from NIC src to NIC dst as the user gave
// them, nil if the path is to be computed.
type UserRoutes func(src, dst int) []int

// Route computes the path between every two NICs of different nodes, of perNode NICs
// each: the path of least cost. Where several links continue such a path, each switch
// draws one by the seed and the pair, as a switch that hashes a flow's addresses does
// (ECMP). With perFlow it draws one for each flow, see [Routes.FlowPath]; the path of the pair is then the path of a
// flow like others. The error is a *NoPath.
func (g *Graph) Route(perNode int, seed uint64, user UserRoutes, perFlow bool) (*Routes, error) {
	r := &Routes{NICs: len(g.Home), Paths: make([][]int, len(g.Home)*len(g.Home))}
	out := g.outgoing()
	toward := map[int][]int{}
	if perFlow {
		r.Flows = &FlowRoutes{Graph: g, Out: out, Toward: toward, Given: map[int]bool{}, Seed: seed}
	}
	for dst, home := range g.Home {
		if toward[home] == nil {
			toward[home] = g.costs(home)
		}
		for src := range g.Home {
			if src/perNode == dst/perNode {
				continue
			}
			path, why := []int(nil), ""
			if via := user(src, dst); via != nil {
				path, why = g.follow(out, via, src, dst)
				if perFlow {
					r.Flows.Given[src*r.NICs+dst] = true
				}
			} else {
				path, why = g.walk(out, toward[home], src, dst, rand.NewPCG(seed, uint64(src)<<32|uint64(dst)))
			}
			// Of paths of the same cost all have as many links: at most one costs more than 1.
			if why == "" && len(path) > MaxLinks {
				why = "the path from " + g.Switches[g.Home[src]] + " to " + g.Switches[home] + " has " +
					units.Count(len(path), "link") + " between switches: at most " + units.Count(MaxLinks, "link")
			}
			if why != "" {
				return nil, &NoPath{src, dst, why}
			}
			r.Paths[src*r.NICs+dst] = path
		}
	}
	return r, nil
}

// outgoing is the links that leave each switch.
func (g *Graph) outgoing() [][]int {
	out := make([][]int, len(g.Switches))
	for i, l := range g.Links {
		out[l.From] = append(out[l.From], i)
	}
	return out
}

const unreachable = math.MaxInt

// costs is the least cost of a path from each switch to home (Bellman and Ford, which is
// fast enough for the few switches of a fabric).
func (g *Graph) costs(home int) []int {
	cost := make([]int, len(g.Switches))
	for i := range cost {
		cost[i] = unreachable
	}
	cost[home] = 0
	for again := true; again; {
		again = false
		for _, l := range g.Links {
			if cost[l.To] != unreachable && cost[l.To]+l.Cost < cost[l.From] {
				cost[l.From] = cost[l.To] + l.Cost
				again = true
			}
		}
	}
	return cost
}

// nearer are the links of a switch that continue a path of least cost.
func (g *Graph) nearer(out [][]int, cost []int, at int) (best []int) {
	for _, i := range out[at] {
		if l := g.Links[i]; cost[l.To] != unreachable && cost[l.To]+l.Cost == cost[at] {
			best = append(best, i)
		}
	}
	return best
}

// walk follows falling costs from src's switch to dst's.
func (g *Graph) walk(out [][]int, cost []int, src, dst int, draw *rand.PCG) (path []int, why string) {
	at := g.Home[src]
	if cost[at] == unreachable {
		return nil, "no links lead from " + g.Switches[at] + " to " + g.Switches[g.Home[dst]]
	}
	for at != g.Home[dst] {
		best := g.nearer(out, cost, at)
		next := best[0]
		if len(best) > 1 {
			next = best[draw.Uint64()%uint64(len(best))]
		}
		path = append(path, next)
		at = g.Links[next].To
	}
	return path, ""
}

// follow finds the links of a path that was given by its switches.
func (g *Graph) follow(out [][]int, via []int, src, dst int) (path []int, why string) {
	if via[0] != g.Home[src] || via[len(via)-1] != g.Home[dst] {
		return nil, "the route given for it must begin at its switch " + g.Switches[g.Home[src]] + " and end at " +
			g.Switches[g.Home[dst]]
	}
	for k := 1; k < len(via); k++ {
		found := -1
		for _, i := range out[via[k-1]] {
			if g.Links[i].To == via[k] {
				found = i
			}
		}
		if found < 0 {
			return nil, "the route given for it needs a link from " + g.Switches[via[k-1]] + " to " +
				g.Switches[via[k]] + ", which is missing"
		}
		path = append(path, found)
	}
	return path, ""
}
