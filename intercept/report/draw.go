// SPDX-License-Identifier: Apache-2.0

package report

import (
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/link"
)

// Draw makes the map of a fabric, and says which hop of the fabric each of Map.Hops is. It has all ports and links
// between switches. A link between NICs is in it if listed says so; it has a line if drawn says so, or if it is slower
// than its sender's port.
func Draw(f *fabric.Fabric, listed, drawn func(hop int) bool) (g Map, hops []int) {
	g.Name, g.Hops = f.Config.Name, []Hop{}
	g.Vertices, g.Width, g.Height = places(f)
	rate := map[int]uint64{} // of each NIC's port; 0 is unlimited
	for _, x := range f.Hops {
		if x.Kind == fabric.TxPort {
			rate[x.Src] = x.Spec.Bandwidth
		}
	}
	for h, x := range f.Hops {
		hop := Hop{
			Name: f.HopName(h), From: -1, To: -1, Latency: x.Spec.Latency.Nanoseconds(), Loss: x.Spec.Loss != link.Loss{}, Down: x.Spec.Down,
		}
		if x.Spec.Bandwidth != uint64(units.Unlimited) {
			hop.Bandwidth = float64(x.Spec.Bandwidth)
		}
		switch x.Kind {
		case fabric.TxPort:
			hop.From, hop.To = x.Src, f.NICs()+homeOf(f, x.Src)
		case fabric.RxPort:
			hop.From, hop.To = f.NICs()+homeOf(f, x.Src), x.Src
		case fabric.Trunk:
			hop.From, hop.To = f.NICs()+x.Src, f.NICs()+x.Dst
		default:
			slow := hop.Bandwidth > 0 && (rate[x.Src] == 0 || x.Spec.Bandwidth < rate[x.Src]) || drawn(h)
			if !slow && !listed(h) {
				continue
			}
			if slow {
				hop.From, hop.To = x.Src, x.Dst
			}
		}
		g.Hops, hops = append(g.Hops, hop), append(hops, h)
	}
	return g, hops
}
