// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Zones is the zone of the fabric, such as a leaf, a pod or a site, that each node
// belongs to, as a number of Net.Zones; nil if there is none or a node's NICs are in
// several.
func (f *Fabric) Zones() []int {
	if f.Net == nil {
		return nil
	}
	zones := make([]int, f.Config.Nodes)
	for n, home := range f.Net.Home {
		node, zone := f.NodeOfNIC(n), f.Net.Zone[home]
		if zone == topology.NoZone || f.NIC(node, 0) != n && zones[node] != zone {
			return nil
		}
		zones[node] = zone
	}
	return zones
}

// ZoneRates are the payload rates of all links between switches that leave a zone and
// that enter it, in bytes per second; 0 if the bandwidth of one of them is unlimited.
func (f *Fabric) ZoneRates(zone int) (out, in float64) {
	outside := func(sw int) bool { return f.Net.Zone[sw] != zone }
	return f.sumRates(func(h *Hop) (leaves, enters bool) {
		if h.Kind != link.Trunk {
			return false, false
		}
		from, to := outside(h.Src), outside(h.Dst)
		return !from && to, from && !to
	})
}

// PortRates are the sums of the payload rates of the ports of some nodes, in bytes per second, out of and into the
// nodes; 0 if the bandwidth of one of them is unlimited.
func (f *Fabric) PortRates(isOne func(node int) bool) (out, in float64) {
	return f.sumRates(func(h *Hop) (leaves, enters bool) {
		isPort := h.Kind == link.TxPort || h.Kind == link.RxPort
		if !isPort || !isOne(f.NodeOfNIC(h.Src)) {
			return false, false
		}
		return h.Kind == link.TxPort, h.Kind == link.RxPort
	})
}

// sumRates adds up the payload rates of the hops that leave and of the hops that enter; 0 if one of them is unlimited.
func (f *Fabric) sumRates(way func(h *Hop) (leaves, enters bool)) (out, in float64) {
	unlimited := false
	for i := range f.Hops {
		leaves, enters := way(&f.Hops[i])
		if !leaves && !enters {
			continue
		}
		l := LinkOf(f.Hops[i].Spec)
		rate := l.PayloadRate()
		unlimited = unlimited || rate == 0
		if leaves {
			out += rate
		} else {
			in += rate
		}
	}
	if unlimited {
		return 0, 0
	}
	return out, in
}
