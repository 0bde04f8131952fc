// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"math"
	"math/rand/v2"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Routes are the ways between NICs.
type Routes struct {
	NICs int
	Ways [][]int // links, by src*NICs+dst
}

// Way is the links from NIC src to NIC dst, none if one switch has both.
func (r *Routes) Way(src, dst int) []int { return r.Ways[src*r.NICs+dst] }

// NoWay is two NICs without a way between them.
type NoWay struct {
	Src, Dst int    // NICs
	Why      string // with the names of switches
}

// Error says why, without naming the NICs.
func (e *NoWay) Error() string { return e.Why }

// Given is the switches on the way from one NIC to another as the user gave them,
// nil if the way is to be computed.
type Given func(src, dst int) []int

// Route computes the way between every two NICs of different nodes, of perNode NICs
// each: the one of the least cost. Of several such, which one is drawn for the pair
// by the seed, at each switch anew, as a switch does that hashes a flow's addresses
// (ECMP); all flows of a pair take one way. The error is a *NoWay.
func (g *Graph) Route(perNode int, seed uint64, given Given) (*Routes, error) {
	r := &Routes{NICs: len(g.Home), Ways: make([][]int, len(g.Home)*len(g.Home))}
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
			way, why := []int(nil), ""
			if via := given(src, dst); via != nil {
				way, why = g.follow(out, via, src, dst)
			} else {
				way, why = g.walk(out, toward[home], src, dst, seed)
			}
			if why == "" && len(way) > MaxLinks {
				why = "the way from " + g.Switches[g.Home[src]] + " to " + g.Switches[home] + " has " + units.Count(len(way), "link") + " between switches: at most " + units.Count(MaxLinks, "link")
			}
			if why != "" {
				return nil, &NoWay{src, dst, why}
			}
			r.Ways[src*r.NICs+dst] = way
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

// costs is what the way from each switch to home costs (Bellman and Ford; the few
// switches of a fabric need nothing faster).
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

// walk goes down the costs from src's switch to dst's.
func (g *Graph) walk(out [][]int, cost []int, src, dst int, seed uint64) (way []int, why string) {
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
		way = append(way, next)
		at = g.Links[next].To
	}
	return way, ""
}

// follow finds the links of a way that was given by its switches.
func (g *Graph) follow(out [][]int, via []int, src, dst int) (way []int, why string) {
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
		way = append(way, found)
	}
	return way, ""
}
