// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// nodes is what the nodes of a fabric cost, nil for nothing. The links within them are hops after those between nodes,
// and what proxies and NICs cost is part of the ports and of the transport: the fabric has all that already if its nodes
// are timed, else it is added here. The GPU of a rank has its number.
func nodes(f *fabric.Fabric, params []link.Params, tr *link.Transport) (*expect.Nodes, []link.Params, error) {
	if c := &f.Config; c.NodeTime && !c.HasGPUTime() {
		return nil, nil, fmt.Errorf("the time of a node with %s: it has no section time", c.GPUName())
	}
	t := f.NodeTime()
	if t == nil {
		return nil, params, nil
	}
	if err := f.CheckNodeTime(); err != nil {
		return nil, nil, err
	}
	net := f.NICTime()
	if !f.Config.TimedNodes {
		tr.Host.PerMessage += int64(net.PerMessage)
		for i := range f.Hops {
			if f.Hops[i].Kind == fabric.TxPort {
				params[i].Latency += int64(net.Latency)
			}
		}
		for _, h := range f.GPULinks() {
			p, err := link.NewParams(h.Spec, 1)
			if err != nil {
				return nil, nil, fmt.Errorf("the links within a node with %s: %w", f.Config.GPU.Name, err)
			}
			params = append(params, p)
		}
	}
	return &expect.Nodes{
		Time: *t, NICLatency: int64(net.Latency), Rendezvous: int64(net.Rendezvous), Eager: uint64(net.Eager),
		Path: func(src, dst int, kind plan.Multicast) []link.PathHop { return f.GPUPath(src, dst, directions[kind]) },
	}, params, nil
}

// directions are the links within a node that a message crosses. Of what an NVSwitch reduces, each GPU sends its part,
// and the result is one of them; what it broadcasts, each GPU gets.
var directions = []fabric.Direction{plan.Unicast: fabric.Through, plan.Reduces: fabric.Out, plan.Broadcast: fabric.In}
