// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Distances on the map, in its units.
const (
	besideNIC    = 34.0
	besideNode   = 30.0 // more, between NICs of two nodes
	besideSwitch = 110.0
	aboveTier    = 130.0
	edge         = 60.0
)

// places makes the vertices of a map: the NICs, and then the switches. A star has one switch.
func places(f *fabric.Fabric) (vertices []Vertex, width, height float64) {
	for n := range f.NICs() {
		vertices = append(vertices, Vertex{Name: f.NICName(n), Node: f.NodeOfNIC(n)})
	}
	names := []string{"star"}
	if f.Net != nil {
		names = f.Net.Switches
	}
	for _, name := range names {
		vertices = append(vertices, Vertex{Name: name, Switch: true, Node: -1})
	}
	tiers := tiersOf(f, len(names))
	if most := slices.Max(tiers); most == 0 && len(names) > 2 {
		placeAround(f, vertices)
	} else {
		placeInTiers(f, vertices, tiers)
	}
	return vertices, fit(vertices, 0), fit(vertices, 1)
}

// homeOf is the switch of a NIC.
func homeOf(f *fabric.Fabric, nic int) int {
	if f.Net == nil {
		return 0
	}
	return f.Net.Home[nic]
}

// tiersOf is how far each switch is from the nearest NIC: 0 for those with NICs.
func tiersOf(f *fabric.Fabric, switches int) []int {
	tiers := make([]int, switches)
	for i := range tiers {
		tiers[i] = switches
	}
	for n := range f.NICs() {
		tiers[homeOf(f, n)] = 0
	}
	if f.Net == nil {
		return tiers
	}
	for changed := true; changed; {
		changed = false
		for _, l := range f.Net.Links {
			for _, way := range [][2]int{{l.From, l.To}, {l.To, l.From}} {
				if tiers[way[1]] > tiers[way[0]]+1 {
					tiers[way[1]], changed = tiers[way[0]]+1, true
				}
			}
		}
	}
	for i, t := range tiers {
		if t == switches { // a switch without a link
			tiers[i] = 0
		}
	}
	return tiers
}

// placeInTiers puts the NICs at the bottom, and each tier of switches above the one before.
func placeInTiers(f *fabric.Fabric, vertices []Vertex, tiers []int) {
	nics := f.NICs()
	x, top := 0.0, float64(slices.Max(tiers)+1)
	order := make([]int, nics)
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return homeOf(f, a) - homeOf(f, b) })
	center, members := make([]float64, len(tiers)), make([]float64, len(tiers))
	for i, n := range order {
		if i > 0 {
			x += besideNIC
			if f.NodeOfNIC(order[i-1]) != f.NodeOfNIC(n) {
				x += besideNode
			}
		}
		vertices[n].X, vertices[n].Y = x, top*aboveTier
		center[homeOf(f, n)] += x
		members[homeOf(f, n)]++
	}
	for tier := range int(top) {
		var row []int
		for s, t := range tiers {
			if t == tier {
				row = append(row, s)
				if center[s] /= max(members[s], 1); tier > 0 {
					center[s] = x / 2
				}
			}
		}
		slices.SortStableFunc(row, func(a, b int) int { return int(center[a] - center[b]) })
		spread(vertices[nics:], row, center, x, (top-float64(tier)-1)*aboveTier)
	}
}

// spread puts a row of switches where their NICs are, or evenly if they would be too near.
func spread(switches []Vertex, row []int, center []float64, width, y float64) {
	near := false
	for i := 1; i < len(row); i++ {
		near = near || center[row[i]]-center[row[i-1]] < besideSwitch
	}
	step := max(besideSwitch, width/float64(len(row)))
	for i, s := range row {
		switches[s].X, switches[s].Y = center[s], y
		if near {
			switches[s].X = width/2 + (float64(i)-float64(len(row)-1)/2)*step
		}
	}
}

// placeAround puts the switches on a circle, and the NICs of each outside of it: for a fabric in which all
// switches have NICs.
func placeAround(f *fabric.Fabric, vertices []Vertex) {
	nics, switches := f.NICs(), len(vertices)-f.NICs()
	of := make([][]int, switches)
	for n := range nics {
		of[homeOf(f, n)] = append(of[homeOf(f, n)], n)
	}
	radius := float64(max(switches, nics/2)) * besideSwitch / (2 * math.Pi)
	radius = max(radius, besideSwitch)
	put := func(v *Vertex, turn, r float64) {
		v.X, v.Y = r*math.Sin(2*math.Pi*turn), -r*math.Cos(2*math.Pi*turn)
	}
	for s, all := range of {
		put(&vertices[nics+s], float64(s)/float64(switches), radius)
		for i, n := range all {
			off := (float64(i) - float64(len(all)-1)/2) / float64(max(len(all), 2)) * 0.8
			put(&vertices[n], (float64(s)+off)/float64(switches), radius+aboveTier)
		}
	}
}

// fit moves the vertices to the corner in one direction, and returns how much room they need.
func fit(vertices []Vertex, axis int) float64 {
	least, most := math.Inf(1), math.Inf(-1)
	at := func(v *Vertex) *float64 { return [2]*float64{&v.X, &v.Y}[axis] }
	for i := range vertices {
		least, most = min(least, *at(&vertices[i])), max(most, *at(&vertices[i]))
	}
	for i := range vertices {
		*at(&vertices[i]) += edge - least
	}
	return most - least + 2*edge
}
