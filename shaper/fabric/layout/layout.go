// SPDX-License-Identifier: Apache-2.0

// Package layout gives the switches and NICs of a fabric places in a picture: in tiers, the NICs at the bottom, or, if
// links of one tier would run through its switches, on a circle.
package layout

import (
	"math"

	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Box is the width and the height that a node takes, in the units of the picture. A node is a switch or a leaf.
type Box struct{ W, H float64 }

// Sizes are the sizes of the nodes of a picture, and the space between two switches beside each other.
type Sizes struct {
	Leaf, Switch Box
	Beside       float64
}

// Leaf is a NIC, or a group of NICs, drawn beside a switch.
type Leaf struct {
	Switch int
	Node   int // leaves of two nodes have more space between them
}

// Point is the middle of a node. X grows to the right, Y downwards.
type Point struct{ X, Y float64 }

// Picture is the places of all nodes. All of each node is between 0 and Width, and between 0 and Height.
type Picture struct {
	Leaves, Switches []Point // in the order in which Place got them, and in the order of the fabric's switches
	Width, Height    float64
}

// Space between nodes, in the units of the picture.
const (
	besideLeaf = 10.0
	besideNode = 30.0  // more, between leaves of two nodes or of two switches
	aboveTier  = 130.0 // from the middle of a node to the middle of a node of the next tier
	edge       = 22.0  // from a node to the edge of the picture
	clearance  = 6.0   // from a link to a node that it does not join
)

// Place gives places to leaves and switches, always the same to the same fabric. No two nodes overlap. Links do not run
// through nodes, unless that would need a circle of more than mostGrowth times the size.
func Place(f *fabric.Fabric, leaves []Leaf, s Sizes) Picture {
	l := newLayout(f, leaves, s)
	if !l.placeInTiers() {
		l.placeAround()
	}
	l.fit()
	return l.at
}

func newLayout(f *fabric.Fabric, leaves []Leaf, s Sizes) *layout {
	l := &layout{Sizes: s, leaves: leaves, links: linksOf(f)}
	l.at = Picture{Leaves: make([]Point, len(leaves)), Switches: make([]Point, len(f.Switches()))}
	for _, leaf := range leaves {
		l.homes = append(l.homes, []int{leaf.Switch})
	}
	return l
}

func linksOf(f *fabric.Fabric) []topology.Link {
	if f.Net == nil {
		return nil
	}
	return f.Net.Links
}

// layout is a picture while it is made.
type layout struct {
	Sizes
	leaves []Leaf
	homes  [][]int // the switches that each leaf has lines to, the leaf's own switch first
	links  []topology.Link
	hang   []float64 // how far each leaf reaches below its place, besides its box; nil is not at all
	at     Picture
}

// block is a switch and its leaves, beside each other.
type block struct {
	leaves  []int
	offsets []float64 // of each leaf, from the middle of the block
	length  float64   // with the space to the next block
}

// blocks are the blocks of all switches. step is the distance of two leaves of one node.
func (l *layout) blocks(step float64) []block {
	all := make([]block, len(l.at.Switches))
	for i, leaf := range l.leaves {
		b := &all[leaf.Switch]
		next := 0.0
		if n := len(b.leaves); n > 0 {
			next = b.offsets[n-1] + step
			if l.leaves[b.leaves[n-1]].Node != leaf.Node {
				next += besideNode
			}
		}
		b.leaves, b.offsets = append(b.leaves, i), append(b.offsets, next)
	}
	for s := range all {
		b := &all[s]
		b.length = l.Switch.W + l.Beside
		if n := len(b.leaves); n > 0 {
			last := b.offsets[n-1]
			b.length = max(b.length, last+step+besideNode)
			for i := range b.offsets {
				b.offsets[i] -= last / 2
			}
		}
	}
	return all
}

// fit moves all nodes into the picture, and sets its size.
func (l *layout) fit() {
	least, most := Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	each := func(do func(p *Point, b Box)) {
		for i := range l.at.Leaves {
			do(&l.at.Leaves[i], l.Leaf)
		}
		for i := range l.at.Switches {
			do(&l.at.Switches[i], l.Switch)
		}
	}
	each(func(p *Point, b Box) {
		least = Point{min(least.X, p.X-b.W/2), min(least.Y, p.Y-b.H/2)}
		most = Point{max(most.X, p.X+b.W/2), max(most.Y, p.Y+b.H/2)}
	})
	for i, below := range l.hang {
		most.Y = max(most.Y, l.at.Leaves[i].Y+below)
	}
	each(func(p *Point, _ Box) { *p = Point{p.X - least.X + edge, p.Y - least.Y + edge} })
	l.at.Width, l.at.Height = most.X-least.X+2*edge, most.Y-least.Y+2*edge
}
