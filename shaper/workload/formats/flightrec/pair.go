// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// pair finds the launches that become operations: collectives that all ranks of the group have in their dumps, and
// sends and receives with their other half. The dump of one rank alone is taken whole.
func (c *converter) pair() {
	c.kept = map[*Dump]map[int32]*common{}
	for _, d := range c.Dumps {
		c.kept[d] = map[int32]*common{}
	}
	for _, g := range c.Groups {
		members := c.members(g)
		if len(members) == 0 {
			continue
		}
		c.collectives(g, members)
		c.messages(g, members)
	}
}

// members are the dumps of the ranks of a group, in the group's order.
func (c *converter) members(g *Group) (members []*Dump) {
	for _, r := range g.Ranks {
		for _, d := range c.Dumps {
			if d.Rank == r {
				members = append(members, d)
			}
		}
	}
	return members
}

// collectives keeps those that all members have.
func (c *converter) collectives(g *Group, members []*Dump) {
	lists := make([][]Numbered, len(members))
	begin, end := uint32(0), ^uint32(0)
	doubtful := false
	for i, d := range members {
		var unsure bool
		lists[i], unsure = g.Collectives(d)
		doubtful = doubtful || unsure
		if len(lists[i]) == 0 {
			end = 0
			continue
		}
		if d.BeginsLate() > 0 || d.Partial() {
			begin = max(begin, lists[i][0].Number)
		}
		end = min(end, lists[i][len(lists[i])-1].Number)
	}
	if doubtful && !c.single {
		c.named = append(c.named,
			fmt.Sprintf(
				"group %s: its collectives may be joined wrongly: their numbers count batches of sends and receives "+
					"too, and a recorder has overwritten calls",
				g.GroupName.String()))
	}
	EachNumber(lists, func(number uint32, launches []*Launch) {
		if slices.Contains(launches, nil) {
			c.leave(g, members, launches, number, begin, end)
		} else {
			c.keep(g, members, launches)
		}
	})
}

// leave counts a collective that not all members have.
func (c *converter) leave(g *Group, members []*Dump, launches []*Launch, number, begin, end uint32) {
	switch {
	case number < begin:
		c.late++
	case number > end:
		c.open++
		var lack workload.Ranks
		what := ""
		for i, l := range launches {
			if l == nil {
				lack = append(lack, members[i].Rank)
			} else if what == "" {
				what = title(members[i], l)
			}
		}
		c.named = append(c.named, fmt.Sprintf("%s #%d of group %s: left out, not called by %s", what, number,
			g.GroupName.String(), lack.Text()))
	default:
		c.torn++
	}
}

// title is what a launch calls.
func title(d *Dump, l *Launch) string {
	entries := l.Entries(d)
	switch len(entries) {
	case 0:
		return "coalesced"
	case 1:
		return entries[0].Func.String()
	}
	return fmt.Sprintf("%s and %d more", entries[0].Func, len(entries)-1)
}

// keep notes a launch that all members have.
func (c *converter) keep(g *Group, members []*Dump, launches []*Launch) {
	shared := &common{root: -1}
	var in, out int64
	var waiting workload.Ranks
	same := true
	for i, d := range members {
		entries := launches[i].Entries(d)
		if len(entries) == 1 {
			e := entries[0]
			in, out = in+e.In.Elements(), out+e.Out.Elements()
			same = same && e.In.Elements() == members[0].At(int(launches[0].First)).In.Elements() &&
				e.In.Elements() == e.Out.Elements()
			if e.isRoot() {
				shared.root = i
			}
		}
		if !launches[i].Done(d) {
			waiting = append(waiting, d.Rank)
		}
		c.kept[d][launches[i].First] = shared
	}
	if !same && !c.single {
		shared.count = (max(in, out) + int64(len(members)*len(members)) - 1) / int64(len(members)*len(members))
	}
	if len(waiting) > 0 {
		c.named = append(c.named, fmt.Sprintf("%s #%d of group %s: not completed on %s", title(members[0], launches[0]),
			launches[0].Seq, g.GroupName.String(), waiting.Text()))
	}
}

// isRoot tells whether the rank is the root of a gather or a scatter: it alone has a tensor for each rank.
func (e *Entry) isRoot() bool {
	few, many := e.In, e.Out
	if few.Elements() > many.Elements() {
		few, many = many, few
	}
	return few.Elements() > 0 && many.Elements() > few.Elements() &&
		(e.Func.Name == "gather" || e.Func.Name == "scatter")
}

// flow is a pair of ranks of a group.
type flow struct{ from, to int }

// half is a launch with sends or receives of a flow.
type half struct {
	d     *Dump
	place int32 // of the entry
	done  bool
}

// messages keeps sends and receives that have their other half: the k-th send to a rank belongs to its k-th receive
// from there. If a recorder has overwritten calls, they are counted from the last that has ended.
func (c *converter) messages(g *Group, members []*Dump) {
	sends, receives := map[flow][]half{}, map[flow][]half{}
	late := false
	for _, d := range members {
		late = late || d.BeginsLate() > 0
		for i := range g.Calls[d.Rank] {
			l := &g.Calls[d.Rank][i]
			for _, at := range l.places(d) {
				e := d.At(int(at))
				if !e.Func.P2P() {
					continue
				}
				to := sends
				if e.Func.Name == "recv" {
					to = receives
				}
				to[flow{e.Func.From, e.Func.To}] = append(to[flow{e.Func.From, e.Func.To}], half{d, at, l.Done(d)})
			}
		}
	}
	if c.single {
		for _, list := range []map[flow][]half{sends, receives} {
			for _, halves := range list {
				c.keepHalves(halves)
			}
		}
		return
	}
	for f, s := range sends {
		r := receives[f]
		delete(receives, f)
		if f.from < 0 || f.to < 0 {
			c.peerless += len(s) + len(r)
			continue
		}
		c.halves += len(s) + len(r)
		if late {
			s, r = ended(s), ended(r)
		}
		n := min(len(s), len(r))
		c.halves -= 2 * n
		if late {
			s, r = s[len(s)-n:], r[len(r)-n:]
		}
		c.keepHalves(s[:n])
		c.keepHalves(r[:n])
	}
	for f, r := range receives {
		if f.from < 0 || f.to < 0 {
			c.peerless += len(r)
		} else {
			c.halves += len(r)
		}
	}
}

// ended are the halves up to the last one that has ended.
func ended(halves []half) []half {
	for len(halves) > 0 && !halves[len(halves)-1].done {
		halves = halves[:len(halves)-1]
	}
	return halves
}

func (c *converter) keepHalves(halves []half) {
	for _, h := range halves {
		c.kept[h.d][h.place] = &common{}
	}
}
