// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Plan is the places of the NICs and switches of a fabric. A small fabric with one NIC per node has each NIC as a
// circle. Others have their nodes in racks, with a box for each port.
type Plan struct {
	Picture        // Leaves are the NICs
	Racks   []Rack // none in a small fabric
	Port    Box    // of a NIC in a rack: sends in its upper half, receives in its lower one
	NIC     Box    // of a NIC without racks
	Switch  Box
}

// Rack is nodes below each other. Its place is the middle of its upper side.
type Rack struct {
	Point
	Box
	Nodes    []RackNode
	Switches []int // to which its nodes have ports
}

// RackNode is the name of a node in its rack. Its place is the left end of the name, at half of its height.
type RackNode struct {
	Node int
	Name string
	Point
}

// Sizes in plans, in the units of the picture.
const (
	Beside      = 34.0 // the least space between two switches
	circle      = 24.0 // diameter of a NIC without racks
	leastSwitch = 76.0 // width
	highSwitch  = 30.0
	mostCircles = 16  // NICs of a plan without racks
	mostRows    = 16  // nodes of a rack, if a switch has no more
	rackEdge    = 8.0 // from the side of a rack to its content
	rowHeight   = 18.0
	portHeight  = 13.0
	nameLetter  = 7.0 // width of a letter of a name, at most
)

// Of makes the plan of a fabric, always the same of the same fabric. beside is the space between two switches.
func Of(f *fabric.Fabric, beside float64) Plan {
	s := Sizes{Leaf: Box{W: circle, H: circle}, Switch: Box{W: leastSwitch, H: highSwitch}, Beside: beside}
	for _, name := range f.Switches() {
		s.Switch.W = max(s.Switch.W, nameLetter*float64(utf8.RuneCountInString(name))+2*rackEdge)
	}
	if f.Config.NICsPerNode > 1 || f.NICs() > mostCircles {
		if p, ok := planOfRacks(f, s); ok {
			return p
		}
	}
	var nics []Leaf
	for n := range f.NICs() {
		nics = append(nics, Leaf{Switch: f.Home(n), Node: f.NodeOfNIC(n)})
	}
	return Plan{Picture: Place(f, nics, s), NIC: s.Leaf, Switch: s.Switch}
}

// planOfRacks puts nodes into racks. If the switches are on a circle, only nodes with several NICs are: ok is false for
// others.
func planOfRacks(f *fabric.Fabric, s Sizes) (p Plan, ok bool) {
	p.Racks, p.Switch = racksOf(f), s.Switch
	p.Port = Box{W: 28, H: portHeight}
	if n := f.Config.NICsPerNode; n > 4 {
		p.Port.W = 10
	} else if n > 1 {
		p.Port.W = 16
	}
	name := nameLetter * float64(len(nodeName(f, f.Config.Nodes-1)))
	step := p.Port.W + 2
	size := Box{W: 3*rackEdge + name + step*float64(f.Config.NICsPerNode)}
	var leaves []Leaf
	var hang []float64
	for i := range p.Racks {
		r := &p.Racks[i]
		r.Box = Box{W: size.W, H: rackEdge + rowHeight*float64(len(r.Nodes))}
		size.H = max(size.H, r.H)
		leaves, hang = append(leaves, Leaf{Switch: r.Switches[0]}), append(hang, r.H)
	}
	s.Leaf = Box{W: size.W} // a rack hangs below its place
	l := newLayout(f, leaves, s)
	l.hang = hang
	for i, r := range p.Racks {
		l.homes[i] = r.Switches
	}
	if !l.placeInTiers() {
		if f.Config.NICsPerNode == 1 {
			return Plan{}, false
		}
		l.Leaf, l.hang = size, nil
		l.placeAround()
	}
	l.fit()
	for i := range p.Racks {
		p.Racks[i].Point = l.at.Leaves[i]
		if l.hang == nil { // the place is the rack's middle
			p.Racks[i].Y -= p.Racks[i].H / 2
		}
	}
	p.Picture = Picture{Switches: l.at.Switches, Width: l.at.Width, Height: l.at.Height}
	p.placePorts(f, 2*rackEdge+name, step)
	return p, true
}

// placePorts gives places to the names of nodes and to NICs. first is where ports begin in a rack, step the distance of
// two.
func (p *Plan) placePorts(f *fabric.Fabric, first, step float64) {
	p.Leaves = make([]Point, f.NICs())
	for i := range p.Racks {
		r := &p.Racks[i]
		left := r.X - r.W/2
		for k := range r.Nodes {
			n := &r.Nodes[k]
			n.Point = Point{left + rackEdge, r.Y + rackEdge/2 + rowHeight*(float64(k)+0.5)}
			for nic := range f.Config.NICsPerNode {
				p.Leaves[f.NIC(n.Node, nic)] = Point{left + first + step*(float64(nic)+0.5), n.Y}
			}
		}
	}
}

// racksOf divides the nodes: those in one rack have ports to the same switches.
func racksOf(f *fabric.Fabric) (racks []Rack) {
	groups := map[string]int{}
	var nodes [][]int
	var switches [][]int
	for n := range f.Config.Nodes {
		var homes []int
		for nic := range f.Config.NICsPerNode {
			if s := f.Home(f.NIC(n, nic)); !slices.Contains(homes, s) {
				homes = append(homes, s)
			}
		}
		key := fmt.Sprint(homes)
		g, known := groups[key]
		if !known {
			g = len(nodes)
			groups[key], nodes, switches = g, append(nodes, nil), append(switches, homes)
		}
		nodes[g] = append(nodes[g], n)
	}
	for g, all := range nodes {
		for part := range slices.Chunk(all, rows(len(all))) {
			r := Rack{Switches: switches[g]}
			for _, n := range part {
				r.Nodes = append(r.Nodes, RackNode{Node: n, Name: nodeName(f, n)})
			}
			racks = append(racks, r)
		}
	}
	return racks
}

// rows is how many of n nodes with the same switches are in one rack.
func rows(n int) int {
	if n <= mostRows {
		return n
	}
	return max(mostRows/2, (n+7)/8)
}

func nodeName(f *fabric.Fabric, node int) string {
	name, _, _ := strings.Cut(f.NICName(f.NIC(node, 0)), ".")
	return name
}
