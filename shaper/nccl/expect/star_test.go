// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// star is ddlemu's default topology: NICs around an ideal switch, with a port in each direction per NIC and a link per
// pair.
type star struct {
	perNode   int // ranks
	bandwidth uint64
	latency   time.Duration
	jitter    link.Jitter
	loss      link.Loss
	tr        link.Transport
	seed      uint64
}

// starNodes is the maximum number of nodes of a star.
const starNodes = 24

// build makes hops 2n and 2n+1 the ports of node n, and then the links between nodes.
func (s star) build() *Fabric {
	port := link.Spec{Bandwidth: s.bandwidth, MTU: 1500, Header: 40, Framing: 38}
	between := port
	between.Latency, between.Jitter, between.Loss = s.latency, s.jitter, s.loss
	prepare := func(spec link.Spec) link.Params {
		p, err := link.NewParams(spec, 1)
		if err != nil {
			panic(err)
		}
		return p
	}
	per := max(s.perNode, 1)
	f := &Fabric{
		Params: slices.Concat(slices.Repeat([]link.Params{prepare(port)}, 2*starNodes),
			slices.Repeat([]link.Params{prepare(between)}, starNodes*starNodes)),
		Transport: &s.tr,
		Seed:      7 + s.seed, Node: func(r int) int { return r / per },
		Tables: link.NewJitterTables(link.NormalTable()),
	}
	f.Path = func(c Conn) ([]link.PathHop, []int, error) {
		a, b := c.Src/per, c.Dst/per
		there, back := 2*starNodes+a*starNodes+b, 2*starNodes+b*starNodes+a
		return []link.PathHop{{Hop: 2 * a}, {Hop: there, Private: true}, {Hop: 2*b + 1}}, []int{back}, nil
	}
	return f
}

func tcp() link.Transport {
	return link.Transport{Kind: link.TCP, SendBuffer: 4 << 20, Window: 6 << 20, RTO: 200e6, DownTimeout: 10e9}
}

func rdma() link.Transport { return link.Transport{Kind: link.RDMA, RTO: 67e6, DownTimeout: 500e6} }

func eth1(tr link.Transport) star {
	return star{bandwidth: 1e9, latency: 25 * time.Microsecond, tr: tr}
}

// payload is the time of n payload bytes at the star's rate in full packets, ns.
func (s star) payload(n float64) float64 { return n * 8 * 1538 / 1460 / float64(s.bandwidth) * 1e9 }

// decide returns a decision for float32 data on rings and trees in rank order.
func decide(coll nccl.Collective, algo plan.Algorithm, proto plan.Protocol, ranks, channels int,
	bytes uint64) plan.Decision {
	d := plan.Decision{
		Version: 22203, Coll: coll, Algo: algo, Proto: proto, Ranks: ranks, Channels: channels,
		Count: bytes / 4, ElemSize: 4,
	}
	for range channels {
		ring := make([]int, ranks)
		for i := range ring {
			ring[i] = i
		}
		d.Rings = append(d.Rings, ring)
		d.Trees = append(d.Trees, heapTree(ranks))
	}
	return d
}

// heapTree is a binary tree in heap order.
func heapTree(ranks int) []plan.Links {
	tree := make([]plan.Links, ranks)
	for r := range tree {
		tree[r].Up = (r - 1) / 2
		if r == 0 {
			tree[r].Up = -1
		}
		for _, c := range []int{2*r + 1, 2*r + 2} {
			if c < ranks {
				tree[r].Down = append(tree[r].Down, c)
			} else {
				tree[r].Down = append(tree[r].Down, -1)
			}
		}
	}
	return tree
}

func simulate(t testing.TB, d plan.Decision, s star) *Estimate {
	t.Helper()
	e, err := Simulate(context.Background(), d, s.build())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// lighter reduces a size if simulating it is slow.
func lighter(bytes uint64) uint64 {
	if underRace {
		return bytes / 8
	}
	return bytes
}
