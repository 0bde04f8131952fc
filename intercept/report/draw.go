// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/layout"
)

// Draw draws a fabric: its NICs and switches, and lines for all ports and links between switches. hops says which hop
// of the fabric each line is. A link between NICs has a line if listed says so; the line has ends if drawn says so, or
// if the link is slower than its sender's port.
func Draw(f *fabric.Fabric, listed, drawn func(hop int) bool) (g Drawing, lines []Line, hops []int) {
	g = drawing(f)
	rate := map[int]uint64{} // of each NIC's port; 0 is unlimited
	for _, x := range f.Hops {
		if x.Kind == link.TxPort {
			rate[x.Src] = x.Spec.Bandwidth
		}
	}
	for h, x := range f.Hops {
		if x.Kind.IsWithinNode() {
			continue // a drawing ends at the NICs
		}
		l := Line{
			Name: f.HopName(h), From: -1, To: -1, Latency: x.Spec.Latency.Nanoseconds(),
			Loss: x.Spec.Loss != link.Loss{}, Down: x.Spec.Down,
		}
		l.Bandwidth = rateOf(&x.Spec)
		switch x.Kind {
		case link.TxPort:
			l.From, l.To = x.Src, f.NICs()+f.Home(x.Src)
		case link.RxPort:
			l.From, l.To = f.NICs()+f.Home(x.Src), x.Src
		case link.Trunk:
			l.From, l.To = f.NICs()+x.Src, f.NICs()+x.Dst
		default:
			slow := l.Bandwidth > 0 && (rate[x.Src] == 0 || x.Spec.Bandwidth < rate[x.Src]) || drawn(h)
			if !slow && !listed(h) {
				continue
			}
			if slow {
				l.From, l.To = x.Src, x.Dst
			}
		}
		lines, hops = append(lines, l), append(hops, h)
	}
	return g, lines, hops
}

// rateOf is the bandwidth of a hop in bits per second, 0 if it is unlimited.
func rateOf(s *link.Spec) float64 {
	if s.Bandwidth == uint64(units.Unlimited) {
		return 0
	}
	return float64(s.Bandwidth)
}

// drawing is the NICs and then the switches of a fabric, with their places.
func drawing(f *fabric.Fabric) Drawing {
	at := layout.Of(f, layout.Beside)
	g := Drawing{Name: f.Config.Name, Width: at.Width, Height: at.Height}
	for n, p := range at.Leaves {
		g.Vertices = append(g.Vertices, Vertex{Name: f.NICName(n), Node: f.NodeOfNIC(n), X: p.X, Y: p.Y})
	}
	for i, name := range f.Switches() {
		p := at.Switches[i]
		g.Vertices = append(g.Vertices, Vertex{Name: name, Switch: true, Node: -1, X: p.X, Y: p.Y})
	}
	for _, r := range at.Racks {
		rack := Frame{X: r.X - r.W/2, Y: r.Y, Width: r.W, Height: r.H, Switches: []int{}}
		for _, s := range r.Switches {
			rack.Switches = append(rack.Switches, f.NICs()+s)
		}
		for _, n := range r.Nodes {
			rack.Nodes = append(rack.Nodes, FrameNode{Node: n.Node, Name: n.Name, X: n.X, Y: n.Y})
		}
		g.Racks = append(g.Racks, rack)
	}
	g.Port, g.Switch = [2]float64{at.Port.W, at.Port.H}, [2]float64{at.Switch.W, at.Switch.H}
	return g
}
