// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Place says where the GPUs of a schedule are on a fabric: equally many on each node, in order.
type Place struct {
	Fabric  *fabric.Fabric
	GPUs    int
	PerNode int
}

// NewPlace places GPUs on the nodes of a fabric. Their number must be a multiple of the number of nodes.
func NewPlace(f *fabric.Fabric, gpus int) (*Place, error) {
	nodes := f.Config.Nodes
	if gpus%nodes != 0 {
		return nil, fmt.Errorf(
			"%d GPUs on %d nodes: must be equally many on each node: give --nodes %d for one GPU on each",
			gpus, nodes, gpus)
	}
	return &Place{Fabric: f, GPUs: gpus, PerNode: gpus / nodes}, nil
}

// Node is the node of a GPU.
func (p *Place) Node(gpu int) int { return gpu / p.PerNode }

// NICs are the NICs, counted over the fabric, that two GPUs on different nodes use on a channel. If a node has more
// NICs than GPUs, a GPU has several. Those of the same number are used of which the path crosses the fewest links
// between switches, and of these the fastest: so GPUs of an island use NVLink, and others the network. The channels
// go round-robin over equal ones.
func (p *Place) NICs(src, dst, channel int) (from, to int) {
	var best [][2]int
	links, rate := 0, 0.0
	for k := range max(p.Fabric.Config.NICsPerNode/p.gpus(), 1) {
		pair := [2]int{p.nic(src, k), p.nic(dst, k)}
		l, r := p.pathOf(pair[0], pair[1])
		switch {
		case len(best) > 0 && (l > links || l == links && r < rate):
			continue
		case l < links || r > rate:
			best = best[:0]
		}
		best, links, rate = append(best, pair), l, r
	}
	pair := best[channel%len(best)]
	return pair[0], pair[1]
}

// gpus is how many GPUs a node has.
func (p *Place) gpus() int { return max(p.Fabric.Config.Node.GPUs, p.PerNode) }

// nic is number k of the NICs of a GPU.
func (p *Place) nic(gpu, k int) int {
	first := p.Fabric.NearestNIC(gpu%p.PerNode, p.gpus())
	return p.Fabric.NIC(p.Node(gpu), min(first+k, p.Fabric.Config.NICsPerNode-1))
}

// pathOf is the number of links between switches on a path, and the rate of its slowest hop.
func (p *Place) pathOf(src, dst int) (links int, rate float64) {
	rate = math.Inf(1)
	for _, x := range p.Fabric.Path(src, dst) {
		h := &p.Fabric.Hops[x.Hop]
		if h.Kind == link.Trunk {
			links++
		}
		l := fabric.LinkOf(h.Spec)
		if r := l.PayloadRate(); r > 0 {
			rate = min(rate, r)
		}
	}
	return links, rate
}

// Expect is the fabric in stated time.
func (p *Place) Expect() (*expect.Fabric, error) {
	params, err := p.Fabric.Params(1)
	if err != nil {
		return nil, err
	}
	transport := p.Fabric.Transport()
	return &expect.Fabric{
		Params: params, Transport: &transport, Tables: p.Fabric.JitterTables(), Seed: p.Fabric.Config.Seed,
		InOrder: true, Node: p.Node,
		Path: func(c expect.Conn) ([]link.PathHop, []int, error) {
			src, dst := p.NICs(c.Src, c.Dst, c.Channel)
			id := link.PathID(dst, c.Listened)
			return p.Fabric.FlowPath(src, dst, id), p.Fabric.FlowReverse(src, dst, id), nil
		},
	}, nil
}

// Bound is a lower bound of the time of any schedule of this collective: the bytes that must leave or enter a node, at
// the rate of its ports; for an all-reduce also that each byte leaves twice for all nodes but one, which holds if no
// switch adds. It is 0 if a port has no rate, or for a collective of which it is not known.
func (p *Place) Bound(s *schedule.Schedule, c *schedule.Cut) time.Duration {
	coll, ok := s.Coll.NCCL()
	if !ok || coll == nccl.Gather || coll == nccl.Scatter {
		return 0
	}
	count := c.Bytes
	if s.Coll.PerRank() {
		count /= uint64(p.GPUs)
	}
	d := plan.Decision{Coll: coll, Ranks: p.GPUs, Count: count, ElemSize: 1}
	longest, all := 0.0, 0.0
	for _, cut := range d.Cuts(p.Node) {
		out, in := p.Fabric.PortRates(func(node int) bool { return node == cut.Node })
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

// Forecast is what one call of a schedule takes.
type Forecast struct {
	*Result
	Time, Bound float64 // in us; Bound is that of [Place.Bound]
}

// Forecast calculates a call of a schedule at a size in bytes. c is the size as the schedule divides it: if it was
// rounded down, the time is that per byte.
func (p *Place) Forecast(ctx context.Context, s *schedule.Schedule, c *schedule.Cut, size int64) (*Forecast, error) {
	f, err := p.Expect()
	if err != nil {
		return nil, err
	}
	calls := 1
	if s.Whole {
		calls = 2 // in the first one senders wait for receives, which stores do not need
	}
	r, err := Play(ctx, s, c, f, calls)
	if err != nil {
		return nil, err
	}
	t := units.Microseconds(time.Duration(r.Times[calls-1])) * float64(size) / float64(c.Bytes)
	return &Forecast{Result: r, Time: t, Bound: units.Microseconds(p.Bound(s, c))}, nil
}
