// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"github.com/ddlemu/ddlemu/configs/topology"
)

// Parts is the part of the fabric, such as a leaf, a pod or a site, that each node
// belongs to, as a number of Net.Parts; nil if there is none or a node's NICs are in
// several.
func (f *Fabric) Parts() []int {
	if f.Net == nil {
		return nil
	}
	parts := make([]int, f.Config.Nodes)
	for n, home := range f.Net.Home {
		node, part := f.NodeOfNIC(n), f.Net.Part[home]
		if part == topology.Apart || f.NIC(node, 0) != n && parts[node] != part {
			return nil
		}
		parts[node] = part
	}
	return parts
}

// PartRates are the payload rates of all links between switches that leave a part and
// that enter it, in bytes per second; 0 if one of them has none.
func (f *Fabric) PartRates(part int) (out, in float64) {
	outside := func(sw int) bool { return f.Net.Part[sw] != part }
	return f.cutRates(func(from, to int) (leaves, enters bool) {
		return !outside(from) && outside(to), outside(from) && !outside(to)
	})
}

// cutRates adds up the payload rates of the trunks that cross a cut, each way.
func (f *Fabric) cutRates(crosses func(from, to int) (out, in bool)) (out, in float64) {
	unlimited := false
	for _, h := range f.Hops {
		if h.Kind != Trunk {
			continue
		}
		leaves, enters := crosses(h.Src, h.Dst)
		if !leaves && !enters {
			continue
		}
		l := LinkOf(h.Spec)
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
