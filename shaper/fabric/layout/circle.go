// SPDX-License-Identifier: Apache-2.0

package layout

import "math"

// mostGrowth is how much larger the circle may be so that links do not run through switches. Links between all of n
// switches need a radius that grows with n².
const mostGrowth = 4

// leastFlat is the height of the flattest ellipse, of a width of 1.
const leastFlat = 0.6

// placeAround puts the switches on a circle, in their order, and the leaves of each outside of it on another one. With
// leaves that are wider than high both are ellipses: circles of higher nodes, made less high with all that is on them.
func (l *layout) placeAround() {
	flat := min(1, max(leastFlat, l.Leaf.H/l.Leaf.W))
	high := *l
	high.Leaf.H, high.Switch.H = l.Leaf.H/flat, l.Switch.H/flat
	for _, p := range high.placeOnCircles() {
		p.Y *= flat
	}
}

// placeOnCircles returns all places.
func (l *layout) placeOnCircles() (all []*Point) {
	// Two boxes whose distance is their diagonal do not overlap, in whatever direction.
	step := math.Hypot(l.Leaf.W, l.Leaf.H) + besideLeaf
	blocks := l.blocks(step)
	round := 0.0
	for _, b := range blocks {
		round += b.length
	}
	angle := make([]float64, len(blocks))
	begin := -blocks[0].length / 2 // the first switch is at the top
	for s, b := range blocks {
		angle[s] = 2 * math.Pi * (begin + b.length/2) / round
		begin += b.length
	}
	inner, outer := l.radii(angle, step, round)
	for s, b := range blocks {
		l.at.Switches[s] = onCircle(angle[s], inner)
		all = append(all, &l.at.Switches[s])
		for i, n := range b.leaves {
			l.at.Leaves[n] = onCircle(angle[s]+2*math.Pi*b.offsets[i]/round, outer)
			all = append(all, &l.at.Leaves[n])
		}
	}
	return all
}

// onCircle is a place on a circle. The angle is from its top, clockwise.
func onCircle(angle, radius float64) Point {
	return Point{radius * math.Sin(angle), -radius * math.Cos(angle)}
}

// radii are the radii of the circles of switches and of leaves. step is the distance of two leaves, and round the
// length of all blocks.
func (l *layout) radii(angle []float64, step, round float64) (inner, outer float64) {
	least := l.Switch.W + l.Beside
	for s := range angle {
		next := math.Mod(angle[(s+1)%len(angle)]-angle[s]+2*math.Pi, 2*math.Pi)
		inner = max(inner, least, radiusOf(least, next))
	}
	if clear := l.clearRadius(angle); clear <= mostGrowth*inner {
		inner = max(inner, clear)
	}
	between := max(aboveTier, math.Hypot(l.Leaf.W+l.Switch.W, l.Leaf.H+l.Switch.H)/2+besideLeaf)
	outer = max(inner+between, radiusOf(step, 2*math.Pi*step/round))
	// With many leaves the circle of switches may be larger, so that their lines to leaves are shorter.
	return max(inner, min(outer/2, outer-between)), outer
}

// radiusOf is the radius of the circle on which points at this angle have this distance.
func radiusOf(distance, angle float64) float64 {
	return distance / (2 * math.Sin(min(angle, math.Pi)/2))
}

// clearRadius is the least radius of the circle of switches at which no link runs through a switch. Of the switches
// that a link passes, those beside its ends are the nearest to it.
func (l *layout) clearRadius(angle []float64) (radius float64) {
	n := len(angle)
	for _, k := range l.links {
		middle, half := (angle[k.From]+angle[k.To])/2, (angle[k.From]-angle[k.To])/2
		need := l.Switch.W/2*math.Abs(math.Sin(middle)) + l.Switch.H/2*math.Abs(math.Cos(middle)) + clearance
		for _, s := range []int{k.From + 1, k.From + n - 1, k.To + 1, k.To + n - 1} {
			off := angle[s%n] - middle
			if math.Abs(math.Sin(off)) < math.Abs(math.Sin(half))-1e-9 { // it is beside the link, not beyond its end
				radius = max(radius, need/math.Abs(math.Cos(off)-math.Cos(half)))
			}
		}
	}
	return radius
}
