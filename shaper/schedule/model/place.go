// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/shaper/expect"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/schedule"
)

// Place says where the GPUs of a schedule are on a fabric: equally many on each node, in order.
type Place struct {
	Fabric  *fabric.Fabric
	GPUs    int
	PerNode int
}

// NewPlace places GPUs on the nodes of a fabric. Their number must be a multiple of that of the nodes.
func NewPlace(f *fabric.Fabric, gpus int) (*Place, error) {
	nodes := f.Config.Nodes
	if gpus%nodes != 0 {
		return nil, fmt.Errorf("%d GPUs on %d nodes: must be equally many on each node: give --nodes %d for one GPU on each", gpus, nodes, gpus)
	}
	return &Place{Fabric: f, GPUs: gpus, PerNode: gpus / nodes}, nil
}

// Node is the node of a GPU.
func (p *Place) Node(gpu int) int { return gpu / p.PerNode }

// NIC is the NIC, counted over the fabric, that a GPU uses on a channel. If a node has more NICs than GPUs, the
// channels of a GPU take turns among its NICs.
func (p *Place) NIC(gpu, channel int) int {
	node, local := p.Node(gpu), gpu%p.PerNode
	first := p.Fabric.NearestNIC(local, p.PerNode)
	own := max(p.Fabric.Config.NICsPerNode/p.PerNode, 1)
	return p.Fabric.NIC(node, min(first+channel%own, p.Fabric.Config.NICsPerNode-1))
}

// Expect is the fabric in stated time.
func (p *Place) Expect() (*expect.Fabric, error) {
	params, err := p.Fabric.Params(1)
	if err != nil {
		return nil, err
	}
	transport := p.Fabric.Transport()
	return &expect.Fabric{
		Params: params, Transport: &transport, Tables: p.Fabric.JitterTables(), Seed: p.Fabric.Config.Seed, InOrder: true, Node: p.Node,
		Path: func(c expect.Conn) ([]link.PathHop, []int, error) {
			src, dst := p.NIC(c.Src, c.Channel), p.NIC(c.Dst, c.Channel)
			return p.Fabric.Path(src, dst), p.Fabric.Reverse(src, dst), nil
		},
	}, nil
}

// Bound is a lower bound of the time of any schedule of this collective: the bytes that must leave or enter a node, at
// the rate of its ports; for an all-reduce also that each byte leaves twice for all nodes but one, which holds if no
// switch adds. It is 0 if a port has no rate, or for a collective of which it is not known.
func (p *Place) Bound(s *schedule.Schedule, c *schedule.Cut) time.Duration {
	coll, ok := map[schedule.Collective]nccl.Collective{
		schedule.AllReduce: nccl.AllReduce, schedule.AllGather: nccl.AllGather, schedule.ReduceScatter: nccl.ReduceScatter,
		schedule.AllToAll: nccl.AllToAll, schedule.Broadcast: nccl.Broadcast, schedule.Reduce: nccl.Reduce,
	}[s.Coll]
	if !ok {
		return 0
	}
	count := c.Bytes
	if s.Coll.PerRank() {
		count /= uint64(p.GPUs)
	}
	d := expect.Decision{Coll: coll, Ranks: p.GPUs, Count: count, ElemSize: 1}
	longest, all := 0.0, 0.0
	for _, cut := range d.Cuts(p.Node) {
		out, in := p.portRates(cut.Node)
		if out == 0 || in == 0 {
			return 0
		}
		all += out
		longest = max(longest, float64(cut.Out)/out, float64(cut.In)/in)
	}
	if s.Coll == schedule.AllReduce && all > 0 {
		longest = max(longest, 2*float64(p.GPUs/p.PerNode-1)*float64(c.Bytes)/all)
	}
	return time.Duration(longest * float64(time.Second))
}

// portRates are the sums of the payload rates of a node's ports in bytes per second, 0 if one has no limit.
func (p *Place) portRates(node int) (out, in float64) {
	for _, h := range p.Fabric.Hops {
		if h.Kind != fabric.TxPort && h.Kind != fabric.RxPort || p.Fabric.NodeOfNIC(h.Src) != node {
			continue
		}
		port := fabric.LinkOf(h.Spec)
		rate := port.PayloadRate()
		if rate == 0 {
			return 0, 0
		}
		if h.Kind == fabric.TxPort {
			out += rate
		} else {
			in += rate
		}
	}
	return out, in
}
