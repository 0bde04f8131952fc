// SPDX-License-Identifier: Apache-2.0

package netgraph

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
)

// custom is g by the names of its switches. Keys of links that are as in the first link are left out.
func (g *Graph) custom() configs.Topology {
	t := configs.Topology{Kind: topology.Custom, Switches: g.Switches, Attach: g.attach()}
	if len(g.Trunks) == 0 {
		return t
	}
	common := g.Trunks[0].Link
	t.Trunk = patch(common)
	for _, k := range g.Trunks {
		a, b := g.Switches[k.A], g.Switches[k.B]
		if k.Latency == k.Back {
			t.Links = append(t.Links, configs.SwitchLink{Between: a + ":" + b, LinkPatch: differing(k.Link, common)})
			continue
		}
		back := k.Link
		back.Latency = k.Back
		t.Links = append(t.Links,
			configs.SwitchLink{Between: a + ">" + b, LinkPatch: differing(k.Link, common)},
			configs.SwitchLink{Between: b + ">" + a, LinkPatch: differing(back, common)})
	}
	return t
}

// differing is what l has otherwise than common.
func differing(l, common Link) configs.LinkPatch {
	p := configs.LinkPatch{}
	if l.Rate != common.Rate {
		p.Bandwidth = &l.Rate
	}
	if l.Latency != common.Latency {
		p.Latency = &l.Latency
	}
	if l.Loss != common.Loss {
		p.Loss = &configs.Loss{P: l.Loss}
	}
	return p
}

// attach puts each node on the switch of its NICs, or each NIC if they differ.
func (g *Graph) attach() []configs.Attach {
	var all []configs.Attach
	for node := range g.Nodes {
		ports := g.Ports[node*g.NICs : (node+1)*g.NICs]
		together := true
		for _, p := range ports {
			together = together && p.Switch == ports[0].Switch
		}
		if together {
			all = append(all, configs.Attach{Match: fmt.Sprintf("node%d", node), Switch: g.Switches[ports[0].Switch]})
			continue
		}
		for i, p := range ports {
			all = append(all, configs.Attach{Match: g.nic(node*g.NICs + i), Switch: g.Switches[p.Switch]})
		}
	}
	return all
}
