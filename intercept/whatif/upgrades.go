// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Kind is how much of a fabric a change is about.
type Kind string

// The kinds of changes.
const (
	OneCable Kind = "cable" // one cable between switches, or one slow link between two NICs: both directions
	OneNIC   Kind = "nic"   // both ports of a NIC, and the links between NICs that are as fast
	Together Kind = "group" // the busiest of a tier: those with about the same load are together
	Tier     Kind = "tier"  // all of a tier: all NICs, or all cables between switches of two kinds
	AllLinks Kind = "all"
	Latency  Kind = "latency" // of all links
	Losses   Kind = "losses"
	Asked    Kind = "" // what a user asked for
)

// Factor is by how much the rates of an upgrade grow.
const Factor = 2

// Upgrades are changes that show what a faster part of the fabric is worth. Played are the recorded messages and r is
// where their time went. First come the cables and NICs on which the critical paths of the calls spend most time, at
// most so many, and those that a name of a group lists; then, for each tier, its busiest ones together; then whole
// tiers, no losses if there are any, all links, and all latencies. A cable changes in both directions.
func Upgrades(played *replay.Replayed, r *why.Report, most int) []Change {
	units := unitsOf(played, r)
	tiers := tiersOf(units)
	var changes []Change
	for _, u := range alone(units, tiers, most) {
		changes = append(changes, faster(u.kind, u.title(), u))
	}
	for _, t := range tiers {
		for _, n := range t.together() {
			changes = append(changes, faster(Together, t.nameOf(n), t.units[:n]...))
		}
	}
	for _, t := range tiers {
		if len(tiers) > 1 && len(t.units) > 1 && t.units[0].busy > 0 {
			changes = append(changes, faster(Tier, t.name, t.units...))
		}
	}
	if lossless, ok := withoutLosses(played.Fabric); ok {
		changes = append(changes, lossless)
	}
	all := faster(AllLinks, "all links", units...)
	all.Hops = network(played.Fabric)
	return append(changes, all, Change{Name: "all latencies x0.5", Kind: Latency, Hops: all.Hops, Links: all.Links,
		Spec: func(_ int, s link.Spec) link.Spec {
			s.Latency /= 2
			return s
		}})
}

// alone are the units that are worth trying alone: those on which critical paths spend most time, at most so many, and
// those whose names stand in a group.
func alone(units []unit, tiers []tier, most int) []unit {
	all := slices.DeleteFunc(slices.Clone(units), func(u unit) bool { return u.busy == 0 })
	slices.SortStableFunc(all, func(a, b unit) int { return cmp.Or(cmp.Compare(b.ns, a.ns), cmp.Compare(b.busy, a.busy)) })
	named := map[string]bool{}
	for _, u := range all[:min(most, len(all))] {
		named[u.name] = true
	}
	for _, t := range tiers {
		for _, n := range t.together() {
			for _, u := range t.units[:n] {
				named[u.name] = named[u.name] || n <= mostNames
			}
		}
	}
	return slices.DeleteFunc(all, func(u unit) bool { return !named[u.name] })
}

// faster is a change of the rates of units.
func faster(kind Kind, name string, units ...unit) Change {
	c := Change{Name: fmt.Sprintf("%s x%d", name, Factor), Kind: kind, Spec: Faster(Factor)}
	for _, u := range units {
		c.Links = append(c.Links, u.name)
		c.Hops = append(c.Hops, u.hops...)
	}
	slices.Sort(c.Hops)
	c.Hops = slices.Compact(c.Hops) // the link between two NICs is of both
	return c
}

// withoutLosses is a change of all links that lose packets. ok is false if none does.
func withoutLosses(f *replay.Fabric) (c Change, ok bool) {
	c = Change{Name: "no losses", Kind: Losses, Spec: func(_ int, s link.Spec) link.Spec {
		s.Loss = link.Loss{}
		return s
	}}
	for h := range f.Hops {
		if f.Hops[h].Spec.Loss != (link.Loss{}) {
			c.Hops = append(c.Hops, h)
			c.Links = append(c.Links, f.HopName(h))
		}
	}
	return c, len(c.Hops) > 0
}

// network is all hops between nodes.
func network(f *replay.Fabric) (hops []int) {
	for h := range f.Hops {
		if !f.Hops[h].Kind.IsWithinNode() {
			hops = append(hops, h)
		}
	}
	return hops
}

// tier is the units of one tier, the busiest first.
type tier struct {
	name  string
	units []unit
}

// tiersOf sorts units into tiers, in the order of their first unit.
func tiersOf(units []unit) (tiers []tier) {
	for _, u := range units {
		i := slices.IndexFunc(tiers, func(t tier) bool { return t.name == u.tier })
		if i < 0 {
			i = len(tiers)
			tiers = append(tiers, tier{name: u.tier})
		}
		tiers[i].units = append(tiers[i].units, u)
	}
	for _, t := range tiers {
		slices.SortStableFunc(t.units, func(a, b unit) int { return cmp.Compare(b.busy, a.busy) })
	}
	return tiers
}

// asBusy is the share of another unit's load from which on two units count as equally busy.
const asBusy = 0.95

// together are how many of the busiest units of a tier are worth trying together: 1, 2, 4 and so on, and with the last
// one all that are as busy. One alone and all of them are not among these.
func (t *tier) together() (counts []int) {
	for n := 1; n < len(t.units); n *= 2 {
		end := n
		for end < len(t.units) && float64(t.units[end].busy) >= asBusy*float64(t.units[n-1].busy) {
			end++
		}
		if end > 1 && end < len(t.units) && t.units[end-1].busy > 0 && !slices.Contains(counts, end) {
			counts = append(counts, end)
		}
	}
	return counts
}

// mostNames is how many units a name lists.
const mostNames = 3

// nameOf names the n busiest units of a tier.
func (t *tier) nameOf(n int) string {
	if n > mostNames {
		return fmt.Sprintf("the %d busiest %s", n, strings.TrimPrefix(t.name, "all "))
	}
	names := make([]string, n)
	for i, u := range t.units[:n] {
		names[i] = u.title()
	}
	return strings.Join(names, ", ")
}
