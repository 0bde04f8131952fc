// SPDX-License-Identifier: Apache-2.0

package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// figures describes the whole fabric, in one line for each subject.
func (g *graph) figures(f *fabric.Fabric) []string {
	lines := g.pairLines(f)
	if line := unequalLeaves(f); line != "" {
		lines = append(lines, line)
	}
	if f.Config.Nodes < 2 {
		return lines
	}
	half := "node0"
	if n := f.Config.Nodes / 2; n > 1 {
		half += fmt.Sprintf(" to node%d", n-1)
	}
	return append(lines, g.latency(f),
		fmt.Sprintf("bisection, %s against the others: %s", half, bisection(f.Bisection())))
}

// latency is a line with the latencies of all pairs whose path is up.
func (g *graph) latency(f *fabric.Fabric) string {
	near := func(src, dst int) bool { return g.home[src] == g.home[dst] }
	all, some := spread(f, func(_, _ int) bool { return true })
	one, someNear := spread(f, near)
	switch {
	case !some:
		return "latency: no pair has a path that is up"
	case !someNear:
		return "latency of all pairs " + all
	case one == all:
		return "latency of a pair on one switch " + one
	}
	return "latency of a pair on one switch " + one + ", of all pairs " + all
}

// spread is the range of the latencies of pairs of NICs for which include is true and
// whose path is up. found is false if there are no such pairs.
func spread(f *fabric.Fabric, include func(src, dst int) bool) (text string, found bool) {
	var least, most time.Duration
	for src := range f.NICs() {
		for dst := range f.NICs() {
			if f.NodeOfNIC(src) == f.NodeOfNIC(dst) || !include(src, dst) || !up(f, src, dst) {
				continue
			}
			l := f.Latency(src, dst)
			if !found {
				least, most, found = l, l, true
			}
			least, most = min(least, l), max(most, l)
		}
	}
	if least == most {
		return least.String(), found
	}
	return fmt.Sprintf("%v to %v", least, most), found
}

// up reports whether every hop of a path between two NICs is up.
func up(f *fabric.Fabric, src, dst int) bool {
	return slices.ContainsFunc(f.Paths(src, dst), func(path []link.PathHop) bool {
		return !slices.ContainsFunc(path, func(s link.PathHop) bool { return f.Hops[s.Hop].Spec.Down })
	})
}

// bisection describes the bandwidth in both directions.
func bisection(b fabric.Bisection) string {
	switch {
	case b.There.None && b.Back.None:
		return "none: no link that is up joins them"
	case b.There == b.Back:
		return join(rate(b.There)+" in each direction", oversubscription(b.There))
	}
	there, back := rate(b.There)+" to the others", rate(b.Back)+" back"
	return join(there, oversubscription(b.There)) + "; " + join(back, oversubscription(b.Back))
}

func rate(c fabric.Cut) string {
	if c.None {
		return "nothing"
	}
	return c.LineRate.String()
}

// oversubscription is the ratio of what the NICs could send or receive to what the cut
// carries, "" if it is not above 1.
func oversubscription(c fabric.Cut) string {
	if c.None || c.LineRate == units.Unlimited || c.Full == units.Unlimited || c.LineRate >= c.Full {
		return ""
	}
	return units.Ratio(float64(c.Full)/float64(c.LineRate)) + " oversubscribed"
}

// join puts a comma between two texts. It returns a alone if b is empty.
func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + ", " + b
}

// namedPairs is how many links of pairs a line names at most.
const namedPairs = 4

// pairLines lists the links of pairs that are down, or slower than the ports at their
// ends, in one line for each rate. It leaves out a NIC whose links are all down:
// portLabel says that.
func (g *graph) pairLines(f *fabric.Fabric) []string {
	pairs := map[string][]string{}
	var kinds []string
	for _, h := range f.Hops {
		kind := ""
		switch {
		case h.Kind != link.Link:
		case h.Spec.Down && g.out[h.Src] && g.in[h.Dst]:
			kind = "that are down"
		case !h.Spec.Down && slower(f, h):
			kind = "at " + units.Bandwidth(h.Spec.Bandwidth).String()
		}
		if kind == "" {
			continue
		}
		if pairs[kind] == nil {
			kinds = append(kinds, kind)
		}
		pairs[kind] = append(pairs[kind], f.NICName(h.Src)+">"+f.NICName(h.Dst))
	}
	var lines []string
	for _, kind := range kinds {
		names := pairs[kind]
		line := fmt.Sprintf("links of pairs %s: %s", kind, strings.Join(names[:min(len(names), namedPairs)], ", "))
		if more := len(names) - namedPairs; more > 0 {
			line += fmt.Sprintf(" and %d more", more)
		}
		lines = append(lines, line)
	}
	return lines
}

// slower reports whether the link of a pair has a lower rate than the ports at its ends.
func slower(f *fabric.Fabric, h fabric.Hop) bool {
	below := func(port int) bool {
		rate := f.Hops[port].Spec.Bandwidth
		return h.Spec.Bandwidth < rate || rate == uint64(units.Unlimited)
	}
	return h.Spec.Bandwidth != uint64(units.Unlimited) && below(2*h.Src) && below(2*h.Dst+1)
}

// unequalLeaves is a line with the oversubscription of leaves that have fewer NICs than
// others; "" if all leaves have the same number.
func unequalLeaves(f *fabric.Fabric) string {
	t := &f.Config.Topology
	if f.Net == nil || t.Kind != topology.LeafSpine || t.Trunk.Bandwidth != nil {
		return ""
	}
	nics := make([]int, t.Leaves) // leaves are the first switches
	for _, leaf := range f.Net.Home {
		nics[leaf]++
	}
	least, most := slices.Min(nics), slices.Max(nics)
	if least == most {
		return ""
	}
	over := cmp.Or(t.Oversubscription, 1)
	return fmt.Sprintf(
		"all leaves have the uplinks of the leaf with the most NICs: %s is for %d NICs, a leaf with %d has %s",
		units.Ratio(over), most, least, units.Ratio(over*float64(least)/float64(most)))
}
