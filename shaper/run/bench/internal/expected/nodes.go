// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// nodes is what the nodes of a fabric cost, nil for nothing. The links within them are hops after those of params. What
// proxies and NICs cost is added to the ports and to the transport.
func nodes(f *fabric.Fabric, params []link.Params, tr *link.Transport) (*expect.Nodes, []link.Params, error) {
	c := &f.Config
	if !c.NodeTime {
		return nil, params, nil
	}
	if c.NodeNVLink().Connection == configs.GraphNVLink {
		return nil, nil, fmt.Errorf("the time of a node with %s: not known for NVLinks that connect some pairs only",
			c.GPU.Name)
	}
	if !c.HasGPUTime() {
		return nil, nil, fmt.Errorf("the time of a node with %s: it has no section time", c.GPUName())
	}
	t, net := c.GPU.Time, nicTime(c)
	switch {
	case c.Nodes > 1 && net.NetTime == configs.NetTime{}:
		return nil, nil, fmt.Errorf("the time of a node with %s: time.net is missing, which several nodes need", c.GPU.Name)
	case c.GPU.MayUseNVLS(c.NodeNVLink().Connection) && t.NVLSCopy.Rate == 0:
		return nil, nil, fmt.Errorf("the time of a node with %s: time.nvls_copy and time.nvls_head are missing, which NVSwitches "+
			"need", c.GPU.Name)
	}
	tr.Host.PerMessage += int64(net.PerMessage)
	for i := range f.Hops {
		if f.Hops[i].Kind == fabric.TxPort {
			params[i].Latency += int64(net.Latency)
		}
	}
	out := &expect.Nodes{Time: timeOf(t), NICLatency: int64(net.Latency), Rendezvous: int64(net.Rendezvous),
		Eager: uint64(net.Eager)}
	if c.ThreadOfNode {
		out.Call *= int64(c.GPUsPerNode)
	}
	l := localLinksOf(c, len(params))
	out.Path = l.path
	hops, err := l.params(t.Links, c.Nodes)
	if err != nil {
		return nil, nil, fmt.Errorf("the links within a node with %s: %w", c.GPU.Name, err)
	}
	return out, append(params, hops...), nil
}

// nicTime is what NICs and proxies cost: what the fabric does not say of its NICs, as the kind of GPU says it.
func nicTime(c *configs.Fabric) (net configs.NICTime) {
	if c.NICTime != nil {
		net = *c.NICTime
	}
	if net.NetTime == (configs.NetTime{}) {
		net.NetTime = c.GPU.Time.Net
	}
	return net
}

// timeOf converts the times of a kind of GPU.
func timeOf(t *configs.GPUTime) node.Time {
	action := func(a configs.ActionTime) node.Cost {
		if a.Rate == 0 {
			return node.Cost{}
		}
		return node.Cost{Step: float64(a.Step), PerByte: 8e9 / float64(a.Rate), Links: a.Occupies}
	}
	return node.Time{
		Kernel: int64(t.Kernel), Channels: int64(t.Channels), Call: int64(t.Call),
		LL: action(t.LL), LL128: action(t.LL128), Simple: action(t.Simple), Send: action(t.Send),
		SendNet:  action(t.SendNet),
		NVLSCopy: action(t.NVLSCopy), NVLSHead: action(t.NVLSHead),
	}
}

// localLinks are the links between the GPUs of each node, as hops from base on: of a mesh one for each ordered pair of
// GPUs, else one out of and one into each GPU.
type localLinks struct {
	base, gpus int
	mesh       bool
}

func localLinksOf(c *configs.Fabric, base int) *localLinks {
	return &localLinks{base: base, gpus: c.GPUsPerNode, mesh: c.NodeNVLink().Connection == configs.MeshNVLink}
}

// params are those of the hops.
func (l *localLinks) params(t configs.LinkTime, nodes int) ([]link.Params, error) {
	rate, half := t.Rate, t.Latency/2
	latencies := []time.Duration{half, t.Latency - half}
	if l.mesh {
		rate /= units.Bandwidth(max(l.gpus-1, 1))
		latencies = make([]time.Duration, l.gpus)
		for i := range latencies {
			latencies[i] = t.Latency
		}
	}
	var out []link.Params
	for range nodes * l.gpus {
		for _, latency := range latencies {
			p, err := link.NewParams(link.Spec{Bandwidth: uint64(rate), Latency: latency, MTU: link.MaxMTU,
				QueuePolicy: link.Lossless}, 1)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// path is the hops from the GPU of a rank to that of another one on its node. Of what an NVSwitch reduces, each GPU
// sends its part, and the result is one of them; what it broadcasts, each GPU gets.
func (l *localLinks) path(src, dst int, kind plan.Multicast) []link.PathHop {
	if l.mesh {
		return []link.PathHop{{Hop: l.base + src*l.gpus + dst%l.gpus}}
	}
	out, in := link.PathHop{Hop: l.base + 2*src}, link.PathHop{Hop: l.base + 2*dst + 1}
	switch kind {
	case plan.Reduces:
		return []link.PathHop{out}
	case plan.Broadcast:
		return []link.PathHop{in}
	}
	return []link.PathHop{out, in}
}
