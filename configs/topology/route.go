// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"
	"math/rand/v2"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Routes are the paths between NICs.
type Routes struct {
	NICs  int
	Paths [][]int // links between switches, by src*NICs+dst
}

// Path is the links from NIC src to NIC dst, none if both are on one switch.
func (r *Routes) Path(src, dst int) []int { return r.Paths[src*r.NICs+dst] }

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
// (ECMP). All flows of a pair use the same path. The error is a *NoPath.
func (g *Graph) Route(perNode int, seed uint64, user UserRoutes) (*Routes, error) {
	r := &Routes{NICs: len(g.Home), Paths: make([][]int, len(g.Home)*len(g.Home))}
	out := g.outgoing()
	toward := map[int][]int{}
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
			} else {
				path, why = g.walk(out, toward[home], src, dst, seed)
			}
			if why == "" && len(path) > MaxLinks {
				why = "the path from " + g.Switches[g.Home[src]] + " to " + g.Switches[home] + " has " + units.Count(len(path), "link") + " between switches: at most " + units.Count(MaxLinks, "link")
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

// walk follows falling costs from src's switch to dst's.
func (g *Graph) walk(out [][]int, cost []int, src, dst int, seed uint64) (path []int, why string) {
	at := g.Home[src]
	if cost[at] == unreachable {
		return nil, "no links lead from " + g.Switches[at] + " to " + g.Switches[g.Home[dst]]
	}
	draw := rand.NewPCG(seed, uint64(src)<<32|uint64(dst))
	for at != g.Home[dst] {
		var best []int
		for _, i := range out[at] {
			if l := g.Links[i]; cost[l.To] != unreachable && cost[l.To]+l.Cost == cost[at] {
				best = append(best, i)
			}
		}
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
		return nil, "the route given for it must begin at its switch " + g.Switches[g.Home[src]] + " and end at " + g.Switches[g.Home[dst]]
	}
	for k := 1; k < len(via); k++ {
		found := -1
		for _, i := range out[via[k-1]] {
			if g.Links[i].To == via[k] {
				found = i
			}
		}
		if found < 0 {
			return nil, "the route given for it needs a link from " + g.Switches[via[k-1]] + " to " + g.Switches[via[k]] + ", which is missing"
		}
		path = append(path, found)
	}
	return path, ""
}
