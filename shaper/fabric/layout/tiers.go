// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"cmp"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/configs/topology"
)

// placeInTiers puts the leaves at the bottom, and each tier of switches above the one before. It reports whether links
// of one tier join neighbours only.
func (l *layout) placeInTiers() bool {
	tiers := l.tiers()
	rows := make([][]int, slices.Max(tiers)+1) // the switches of each tier, from left to right
	for s, t := range tiers {
		rows[t] = append(rows[t], s)
	}
	width := 0.0
	if slices.ContainsFunc(l.homes, func(homes []int) bool { return len(homes) > 1 }) {
		width = l.placeShared(rows[0])
	} else {
		width = l.placeLowest(rows[0])
	}
	for _, row := range rows[1:] {
		l.placeRow(row, tiers, width)
	}
	if !l.joinsNeighbours(rows, tiers) {
		return false
	}
	y := 0.0
	for t, row := range rows {
		y -= l.heightOf(t, rows, tiers)
		for _, s := range row {
			l.at.Switches[s].Y = y
		}
	}
	return true
}

// tiers is how many links each switch is from the nearest leaf: 0 for those with leaves, and for those that no link
// joins to them.
func (l *layout) tiers() []int {
	unknown := len(l.at.Switches)
	tiers := slices.Repeat([]int{unknown}, unknown)
	for _, homes := range l.homes {
		for _, s := range homes {
			tiers[s] = 0
		}
	}
	for changed := true; changed; {
		changed = false
		for _, k := range l.links {
			for _, way := range [][2]int{{k.From, k.To}, {k.To, k.From}} {
				if tiers[way[1]] > tiers[way[0]]+1 {
					tiers[way[1]], changed = tiers[way[0]]+1, true
				}
			}
		}
	}
	for i, t := range tiers {
		if t == unknown {
			tiers[i] = 0
		}
	}
	return tiers
}

// placeLowest puts the switches of the lowest tier beside each other, each above the middle of its leaves. It returns
// their width.
func (l *layout) placeLowest(row []int) (width float64) {
	blocks := l.blocks(l.Leaf.W + besideLeaf)
	for _, s := range row {
		b := &blocks[s]
		middle := width + b.length/2
		l.at.Switches[s].X = middle
		for i, n := range b.leaves {
			l.at.Leaves[n].X = middle + b.offsets[i]
		}
		width += b.length
	}
	return width
}

// placeShared puts leaves with lines to several switches beside each other evenly, and so the switches of the lowest
// tier. It returns their width.
func (l *layout) placeShared(row []int) (width float64) {
	width = max(float64(len(l.leaves))*(l.Leaf.W+besideLeaf), float64(len(row))*(l.Switch.W+l.Beside))
	for i := range l.leaves {
		l.at.Leaves[i].X = width * (float64(i) + 0.5) / float64(len(l.leaves))
	}
	for i, s := range row {
		l.at.Switches[s].X = width * (float64(i) + 0.5) / float64(len(row))
	}
	return width
}

// placeRow puts the switches of a tier beside each other evenly, in the order of the middles of the switches that they
// have links to in the tier below.
func (l *layout) placeRow(row, tiers []int, width float64) {
	middle, links := map[int]float64{}, map[int]float64{}
	for _, k := range l.links {
		for _, way := range [][2]int{{k.From, k.To}, {k.To, k.From}} {
			if tiers[way[0]] == tiers[way[1]]+1 {
				middle[way[0]] += l.at.Switches[way[1]].X
				links[way[0]]++
			}
		}
	}
	for s := range middle {
		middle[s] /= links[s]
	}
	slices.SortStableFunc(row, func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
	step := max(l.Switch.W+l.Beside, width/float64(len(row)))
	for i, s := range row {
		l.at.Switches[s].X = width/2 + (float64(i)-float64(len(row)-1)/2)*step
	}
}

// joinsNeighbours reports whether each link of two switches of one tier joins neighbours in its row.
func (l *layout) joinsNeighbours(rows [][]int, tiers []int) bool {
	place := make([]int, len(tiers))
	for _, row := range rows {
		for i, s := range row {
			place[s] = i
		}
	}
	return !slices.ContainsFunc(l.links, func(k topology.Link) bool {
		apart := place[k.From] - place[k.To]
		return tiers[k.From] == tiers[k.To] && max(apart, -apart) > 1
	})
}

// heightOf is how far a tier is above the one below it, or above the leaves: so far that no link between the two runs
// through the neighbours of its ends.
func (l *layout) heightOf(tier int, rows [][]int, tiers []int) float64 {
	upper, most := l.at.Switches, 0.0 // distance of two ends, from left to right
	slope := l.slope(rows[tier])
	if tier == 0 {
		for i, homes := range l.homes {
			for _, s := range homes {
				most = max(most, math.Abs(l.at.Leaves[i].X-upper[s].X))
			}
		}
		return max(aboveTier, most*max(slope, slopeOf(l.at.Leaves, l.Leaf)))
	}
	for _, k := range l.links {
		if max(tiers[k.From], tiers[k.To]) == tier && tiers[k.From] != tiers[k.To] {
			most = max(most, math.Abs(upper[k.From].X-upper[k.To].X))
		}
	}
	return max(aboveTier, most*max(slope, l.slope(rows[tier-1])))
}

// slope is the least slope at which a link of a switch in a row passes its neighbours.
func (l *layout) slope(row []int) float64 {
	var at []Point
	for _, s := range row {
		at = append(at, l.at.Switches[s])
	}
	return slopeOf(at, l.Switch)
}

func slopeOf(row []Point, b Box) float64 {
	var x []float64
	for _, p := range row {
		x = append(x, p.X)
	}
	slices.Sort(x)
	step := math.Inf(1)
	for i := 1; i < len(x); i++ {
		step = min(step, x[i]-x[i-1])
	}
	return (b.H/2 + clearance) / (step - b.W/2)
}
