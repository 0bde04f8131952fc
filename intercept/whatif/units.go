// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// unit is bought as one: a cable between two switches, a NIC with its cable, or a link between two NICs that is
// slower than both. It has both directions.
type unit struct {
	name string // as a pattern of links
	kind Kind
	tier string
	hops []int
	busy int64 // for how long its busier direction was occupied, ns, without a warm-up
	ns   int64 // of the critical paths, in which messages waited for it or occupied it
}

// title is what people call the unit.
func (u *unit) title() string {
	if u.kind == OneNIC {
		return "NIC " + u.name
	}
	return u.name
}

// unitsOf are the units of a fabric: NICs first, then links between NICs that are slow, then cables between switches.
// Units without a limit of their rate are none, because no upgrade changes them.
func unitsOf(played *replay.Replayed, r *why.Report) []unit {
	f, busy, ns := played.Fabric, busyTimes(played), criticalTimes(r)
	tierName := tierNames(f)
	var units []unit
	at := map[string]int{}
	add := func(name, tier string, kind Kind, hop int) {
		i, ok := at[name]
		if !ok {
			i = len(units)
			at[name] = i
			units = append(units, unit{name: name, kind: kind, tier: tier})
		}
		u := &units[i]
		u.hops = append(u.hops, hop)
		u.busy = max(u.busy, busy[hop])
		u.ns += ns[f.HopName(hop)]
	}
	for h, hop := range f.Hops {
		switch hop.Kind {
		case link.TxPort, link.RxPort:
			add(f.NICName(hop.Src), "all NICs", OneNIC, h)
		case link.Link:
			if isSlow(f, h) {
				from, to := f.NICName(min(hop.Src, hop.Dst)), f.NICName(max(hop.Src, hop.Dst))
				add(from+":"+to, "all slow links between NICs", OneCable, h)
			}
		case link.Trunk:
			from, to := f.Net.Switches[min(hop.Src, hop.Dst)], f.Net.Switches[max(hop.Src, hop.Dst)]
			add(from+":"+to, tierName(hop.Src, hop.Dst), OneCable, h)
		}
	}
	for h, hop := range f.Hops {
		if hop.Kind == link.Link && !isSlow(f, h) { // it is the way between the two ports, and has no cable of its own
			for _, nic := range []int{hop.Src, hop.Dst} {
				units[at[f.NICName(nic)]].hops = append(units[at[f.NICName(nic)]].hops, h)
			}
		}
	}
	units = slices.DeleteFunc(units, func(u unit) bool {
		return !slices.ContainsFunc(u.hops, func(h int) bool { return f.Hops[h].Spec.Bandwidth > 0 })
	})
	kind := func(u unit) link.HopKind { return f.Hops[u.hops[0]].Kind }
	slices.SortStableFunc(units, func(a, b unit) int { return cmp.Compare(kind(a), kind(b)) })
	return units
}

// isSlow says whether the link between two NICs, in one of its directions, is slower than the ports at both ends.
func isSlow(f *replay.Fabric, hop int) bool {
	h := f.Hops[hop]
	for _, one := range []int{hop, f.Link(h.Dst, h.Src)} {
		way := f.Hops[one]
		rate := way.Spec.Bandwidth - 1 // 0 is no limit: the highest
		if rate < min(f.Hops[2*way.Src].Spec.Bandwidth-1, f.Hops[2*way.Dst+1].Spec.Bandwidth-1) {
			return true
		}
	}
	return false
}

// busyTimes are for how long the messages of the measured calls occupied each hop.
func busyTimes(played *replay.Replayed) []int64 {
	t, busy := played.Trace, make([]int64, len(played.Fabric.Hops))
	for i := range played.HopRecords {
		p := &played.HopRecords[i]
		call := t.CallOf(&t.Messages[played.MessageOf(p)])
		if call < 0 || !t.Calls[call].Warmup {
			busy[played.HopOf(p)] += p.Dur
		}
	}
	return busy
}

// criticalTimes are how long messages on critical paths occupied each hop or waited for it, also while a window or a
// buffer was full because of it, by the hop's name.
func criticalTimes(r *why.Report) map[string]int64 {
	ns := map[string]int64{}
	for i := range r.Functions {
		for _, p := range r.Functions[i].Parts {
			switch {
			case p.Cause == why.Serialize || p.Cause == why.Queue:
				ns[p.Link] += p.Ns
			case p.Congested != "":
				ns[p.Congested] += p.Ns
			}
		}
	}
	return ns
}

// mostTiers is the most kinds of switches that are told apart by their names. Where there are more, as in fabrics of
// other tools, names say nothing of tiers.
const mostTiers = 6

// tierNames returns what the tier of a cable between two switches is called, by their names without numbers: all
// leaf-spine cables. Switches of one kind may be in one zone or in two, as the groups of a dragonfly.
func tierNames(f *replay.Fabric) func(from, to int) string {
	if f.Net == nil {
		return nil
	}
	stems := map[string]bool{}
	for _, s := range f.Net.Switches {
		stems[stem(s)] = true
	}
	return func(from, to int) string {
		from, to = min(from, to), max(from, to)
		a, b := stem(f.Net.Switches[from]), stem(f.Net.Switches[to])
		x, y := f.Net.Zone[from], f.Net.Zone[to]
		switch {
		case len(stems) > mostTiers:
			return "all cables between switches"
		case a == b && x == y && x != topology.NoZone:
			return fmt.Sprintf("all %s-%s cables within a %s", a, b, stem(f.Net.Zones[x]))
		}
		return fmt.Sprintf("all %s-%s cables", a, b)
	}
}

// stem is the name of a switch up to its first digit.
func stem(name string) string {
	if i := strings.IndexAny(name, "0123456789"); i > 0 {
		name = name[:i]
	}
	return strings.TrimRight(name, "-_.")
}
