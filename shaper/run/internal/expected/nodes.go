// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// domains are the NVLink domains of the ranks. NVLinks connect all GPUs of a domain, so NCCL takes it for a node.
type domains struct {
	nodes  int // in a domain; 1 if links within nodes take no time
	number int // of domains of the fabric
	of     func(rank int) int
}

// domainsOf are the domains of the ranks of f. node is the emulated node of a rank.
func domainsOf(f *fabric.Fabric, node func(rank int) int) domains {
	d := domains{nodes: 1, of: node}
	if f.Config.NodeTime {
		d.nodes = f.Config.DomainNodes()
	}
	if d.nodes > 1 {
		d.of = func(rank int) int { return node(rank) / d.nodes }
	}
	d.number = (f.Config.Nodes + d.nodes - 1) / d.nodes
	return d
}

// check says if NCCL decided for other nodes than the domains of a communicator.
func (d *domains) check(top *nccllog.Topology) error {
	if d.nodes == 1 {
		return nil
	}
	seen := map[int]bool{}
	for rank := range top.Ranks {
		seen[d.of(rank)] = true
	}
	if top.Nodes != len(seen) {
		return fmt.Errorf("NCCL counts %s, and NVLinks make %s of the emulated ones: unset NCCL_MNNVL_ENABLE and "+
			"NCCL_CUMEM_ENABLE, or give --set nvlink_domain=N", units.Count(top.Nodes, "node"),
			units.Count(len(seen), "node"))
	}
	return nil
}

// nodes is what the nodes of f cost beside its hops, ports and transport, nil for nothing. f is one of WithNodeTime.
// The GPU of a rank has its number.
func nodes(f *fabric.Fabric) *expect.Nodes {
	if !f.Config.TimedNodes {
		return nil
	}
	net := f.NICTime()
	return &expect.Nodes{
		Time: *f.NodeTime(), NICLatency: int64(net.Latency), Rendezvous: int64(net.Rendezvous), Eager: uint64(net.Eager),
		Path: func(src, dst int, kind plan.Multicast) []link.PathHop { return f.GPUPath(src, dst, directions[kind]) },
	}
}

// directions are the links within a node that a message crosses. Of what an NVSwitch reduces, each GPU sends its part,
// and the result is one of them; what it broadcasts, each GPU gets.
var directions = []fabric.Direction{plan.Unicast: fabric.Through, plan.Reduces: fabric.Out, plan.Broadcast: fabric.In}
