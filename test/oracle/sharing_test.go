// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// demand is an endless flow from one NIC to another.
type demand struct{ src, dst int }

// length is the time that flows run in ns, and warm the first part of it that is not counted.
const (
	length = 25e6
	warm   = 5e6
)

// flowsOf makes flows of the link model between NICs.
func flowsOf(t *testing.T, f *fabric.Fabric, demands []demand) []*link.Flow {
	t.Helper()
	params, err := f.Params(1)
	if err != nil {
		t.Fatal(err)
	}
	tr := f.Transport()
	net := link.NewNetwork(params, &tr, nil, 1)
	t.Cleanup(net.Close)
	flows := make([]*link.Flow, len(demands))
	for i, d := range demands {
		flows[i] = net.NewFlow(uint64(i+1), f.Path(d.src, d.dst), fabric.Hops(f.Path(d.dst, d.src)))
	}
	return flows
}

// model is the payload in bytes that each flow carries in the link model between the times from and to.
func model(t *testing.T, f *fabric.Fabric, demands []demand, from, to int64) []float64 {
	t.Helper()
	flows := flowsOf(t, f, demands)
	next := make([]int64, len(flows))
	for _, fl := range flows {
		fl.Post(1<<32, 0)
		fl.Recv(-1e6)
	}
	sample := func(now int64) []float64 {
		got := make([]float64, len(flows))
		for i, fl := range flows {
			fl.Advance(now)
			got[i] = float64(fl.Arrived())
			if fl.Stalls() > 0 {
				t.Fatalf("flow %d stalled", i)
			}
		}
		return got
	}
	until := func(end int64) {
		for {
			first := 0
			for i := range next {
				if next[i] < next[first] {
					first = i
				}
			}
			now := next[first]
			if now >= end {
				return
			}
			next[first] = max(flows[first].Advance(now), now+1)
		}
	}
	until(from)
	a := sample(from)
	until(to)
	b := sample(to)
	for i := range b {
		b[i] -= a[i]
	}
	return b
}

// oracle is the same in the packet simulator.
func oracle(f *fabric.Fabric, demands []demand, from, to int64) []float64 {
	return oracleOf(f, demands, from, to, 0)
}

// oracleOf is oracle with a limit of packets in flight per flow, 0 for none.
func oracleOf(f *fabric.Fabric, demands []demand, from, to int64, window int) []float64 {
	s := newSim(f)
	for _, d := range demands {
		s.add(f, d.src, d.dst, 1<<32).window = window
	}
	s.run(float64(from))
	before := make([]int, len(s.flows))
	for i, fl := range s.flows {
		before[i] = fl.arrived
	}
	s.run(float64(to))
	got := make([]float64, len(s.flows))
	for i, fl := range s.flows {
		got[i] = float64(fl.arrived-before[i]) * packetPayload
	}
	return got
}

// rate is the rate of a NIC. At a quarter of it segments still have their maximum size: flows with segments of
// different sizes share by segments, not by bytes.
const rate = 40 * units.Gbps

// net makes a fabric with links of this rate and 2 us, and 1 us between switches.
func net(t *testing.T, nodes int, queue string, top configs.Topology) *fabric.Fabric {
	t.Helper()
	if top.Kind != "" {
		late := time.Microsecond
		top.Trunk.Latency = &late
	}
	return netOf(t, nodes, queue, top, configs.Default().Seed)
}

func netOf(t *testing.T, nodes int, queue string, top configs.Topology, seed uint64) *fabric.Fabric {
	t.Helper()
	c := configs.Default()
	c.Nodes, c.Seed, c.Topology = nodes, seed, top
	c.Link.Bandwidth, c.Link.Latency = rate, 2*time.Microsecond
	c.Link.MTU, c.Link.Header, c.Link.Framing = mtu, header, framing
	q, err := configs.ParseQueue(queue)
	if err != nil {
		t.Fatal(err)
	}
	c.Link.Queue = q
	f, err := fabric.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// all has a flow from each NIC in from to each in to.
func all(from, to []int) []demand {
	var d []demand
	for _, a := range from {
		for _, b := range to {
			if a != b {
				d = append(d, demand{a, b})
			}
		}
	}
	return d
}

func upTo(n int) []int {
	var s []int
	for i := range n {
		s = append(s, i)
	}
	return s
}

const tolerance = 0.03

// line is the payload in bytes that a NIC's line carries in ns.
func line(ns int64) float64 {
	return float64(rate) / 8 * packetPayload / packetBytes * float64(ns) / 1e9
}

func TestOneBottleneckIsSharedEqually(t *testing.T) {
	for _, queue := range []string{"lossless", "lossless:256K", "lossless:1M"} {
		for _, n := range []int{2, 4, 7} {
			f := net(t, n+1, queue, configs.Topology{})
			from, to := int64(warm), int64(length)
			if queue != "lossless" {
				// The order of a few segments changes slowly once queues are full.
				from, to = 60e6, 120e6
			}
			for i, got := range model(t, f, all(upTo(n + 1)[1:], []int{0}), from, to) {
				if want := line(to-from) / float64(n); math.Abs(got/want-1) > tolerance {
					t.Errorf("%s: %d to 1: flow %d gets %.3f of its share", queue, n, i, got/want)
				}
			}
		}
	}
}

// With tail drop, a bottleneck is full. The shares are not tested: the model does not slow down a flow that loses
// packets, so the shares depend on phase (Floyd and Jacobson 1992).
func TestTailDropFillsTheBottleneck(t *testing.T) {
	for _, n := range []int{2, 4, 7} {
		f := net(t, n+1, "taildrop:1M", configs.Topology{})
		demands := all(upTo(n + 1)[1:], []int{0})
		for name, got := range map[string][]float64{"model": model(t, f, demands, warm, length),
			"packets": oracle(f, demands, warm, length)} {
			if total := sum(got, nil); math.Abs(total/line(length-warm)-1) > tolerance {
				t.Errorf("%d to 1, %s: %.3f of the line", n, name, total/line(length-warm))
			}
		}
	}
}

// sum adds the flows with these indices, all flows if there are none.
func sum(flows []float64, which []int) float64 {
	total := 0.0
	for i, v := range flows {
		if which == nil || slices.Contains(which, i) {
			total += v
		}
	}
	return total
}

// pattern is a traffic pattern on a fabric.
type pattern struct {
	name       string
	nodes      int
	top        configs.Topology
	demands    []demand
	bottleneck []int   // flows
	each       float64 // maximum deviation of a flow with bounded queues
}

func traffic() []pattern {
	two := configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Oversubscription: 4}
	spines := configs.Topology{Kind: topology.LeafSpine, Leaves: 2, Spines: 2, Oversubscription: 4}
	return []pattern{
		{"incast over a leaf", 8, two, all([]int{4, 5, 6, 7}, []int{0}), nil, tolerance},
		{"all to all, oversubscribed leaf", 8, two, all(upTo(8), upTo(8)), nil, tolerance},
		{"all to all, two spines", 8, spines, all(upTo(8), upTo(8)), []int{}, tolerance},
		{"two jobs on one spine", 8, two, append(all([]int{0, 1}, []int{4, 5}), all([]int{2}, []int{6})...), nil,
			tolerance},
		{"a flow behind one that is blocked", 4, configs.Topology{}, []demand{{0, 1}, {0, 2}, {3, 1}}, []int{0, 2},
			tolerance},
		{"near and far senders", 8, configs.Topology{Kind: topology.LeafSpine, Leaves: 2},
			[]demand{{1, 0}, {4, 0}, {5, 0}, {6, 0}}, nil, 0.08},
		{"incast of near and far", 8, two, all(upTo(8)[1:], []int{0}), nil, 0.15},
		{"incast over two spines", 16, configs.Topology{Kind: topology.LeafSpine, Leaves: 4, Spines: 2},
			all(upTo(16)[1:], []int{0}), nil, 0.1},
	}
}

// With bounded queues, single flows may deviate more if a port pauses a link between switches, and that link pauses
// those behind it (see docs/model.md).
func TestModelSharesAsPacketsDo(t *testing.T) {
	for _, c := range traffic() {
		for _, queue := range []string{"lossless", "lossless:256K", "lossless:1M"} {
			t.Run(c.name+", "+queue, func(t *testing.T) {
				f := net(t, c.nodes, queue, c.top)
				got, want := model(t, f, c.demands, warm, length), oracle(f, c.demands, warm, length)
				if a, b := sum(got, c.bottleneck), sum(want, c.bottleneck); math.Abs(a-b) > tolerance*b {
					t.Errorf("the bottleneck carries %.0f Mb/s, by packets %.0f", mbps(a), mbps(b))
				}
				for i, d := range c.demands {
					off := got[i]/want[i] - 1
					most := tolerance
					if queue != "lossless" {
						most = c.each
					}
					if math.Abs(off) <= most {
						continue
					}
					t.Errorf("%s to %s: %.0f Mb/s, by packets %.0f: %.1f %% off", f.NICName(d.src), f.NICName(d.dst),
						mbps(got[i]), mbps(want[i]), 100*off)
				}
			})
		}
	}
}

func mbps(bytes float64) float64 { return bytes * 8 * 1e3 / (length - warm) }
