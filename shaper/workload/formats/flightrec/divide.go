// SPDX-License-Identifier: Apache-2.0

package flightrec

import (
	"slices"
	"strings"
)

// divide divides groups of which no dump lists the ranks where their calls say that they have fewer ranks than have
// called them: groups of different ranks then have one name. Ranks in a row are taken.
func (j *Job) divide() {
	var all []*Group
	for _, g := range j.Groups {
		n := j.sizeByCalls(g)
		if !g.Guessed || g.isDefault() || n < 2 || n >= len(g.Ranks) || len(g.Ranks)%n != 0 {
			all = append(all, g)
			continue
		}
		slices.Sort(g.Ranks)
		for ranks := range slices.Chunk(g.Ranks, n) {
			part := &Group{GroupName: g.GroupName, Ranks: ranks, Guessed: true, divided: true,
				Calls: map[int][]Launch{}}
			for _, r := range ranks {
				part.Calls[r] = g.Calls[r]
			}
			all = append(all, part)
		}
	}
	j.Groups = all
}

// sizeByCalls is the number of ranks that follows from what goes into all-gathers and reduce-scatters and what comes
// out, 0 if it does not follow or if two calls contradict each other.
func (j *Job) sizeByCalls(g *Group) int {
	size := 0
	for _, d := range j.Dumps {
		calls := g.Calls[d.Rank]
		for i := range calls {
			for _, e := range calls[i].Entries(d) {
				n := e.groupSize()
				if n > 0 && size > 0 && n != size {
					return 0
				}
				size = max(size, n)
			}
		}
	}
	return size
}

// groupSize is the number of ranks of the group of an all-gather or a reduce-scatter, 0 if the call does not say it.
func (e *Entry) groupSize() int {
	one, all := e.In.Elements(), e.Out.Elements()
	switch {
	case strings.Contains(e.Func.Name, "reduce_scatter"):
		one, all = all, one
	case !strings.Contains(e.Func.Name, "all_gather"):
		return 0
	}
	if one <= 0 || all%one != 0 {
		return 0
	}
	return int(all / one)
}
