// SPDX-License-Identifier: Apache-2.0

package expected

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// A variable that changes what the model does not know is an error, and has no effect on other calls.
func TestRefuseVariables(t *testing.T) {
	for _, tc := range []struct {
		variable string
		d        plan.Decision
		refused  bool
	}{
		{"NCCL_P2P_NVL_CHUNKSIZE", plan.Decision{Coll: nccl.AllToAll, LocalTime: true}, true},
		{"NCCL_P2P_PCI_CHUNKSIZE", plan.Decision{Coll: nccl.SendRecv, LocalTime: true}, true},
		{"NCCL_P2P_NVL_CHUNKSIZE", plan.Decision{Coll: nccl.AllToAll}, false},
	} {
		err := refuseVariables(&tc.d, func(name string) string { return map[string]string{tc.variable: "65536"}[name] })
		if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), tc.variable+"=65536") {
			t.Errorf("%s for %s: %v", tc.variable, tc.d.Name(), err)
		}
	}
}

// fabricOf is ndr400 with a kind of GPU and the time of its nodes, changed.
func fabricOf(t rapid.TB, kind string, change func(c *configs.Fabric)) *fabric.Fabric {
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	if c.GPU, err = configs.BuiltInGPU(kind); err != nil {
		t.Fatal(err)
	}
	c.NodeTime = true
	change(c)
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What a kind of GPU lacks is an error, never a cost of nothing.
func TestNodesRefuse(t *testing.T) {
	for want, change := range map[string]func(c *configs.Fabric){
		"":                       func(*configs.Fabric) {},
		"it has no section time": func(c *configs.Fabric) { c.GPU.Time = nil },
		"time.net is missing":    func(c *configs.Fabric) { c.GPU.Time.Net = configs.NetTime{} },
		"time.nvls_copy and time.nvls_head are missing": func(c *configs.Fabric) {
			c.GPU.NVLink.Connection, c.NVLink = configs.MeshNVLink, configs.SwitchedNVLink
			c.GPU.Time.NVLSCopy.Rate = 0
		},
	} {
		f := fabricOf(t, "h100-sxm", func(c *configs.Fabric) {
			c.GPUsPerNode = 2
			change(c)
		})
		_, err := f.WithNodeTime()
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one with %q", err, want)
		}
	}
}

// onRing is an all-reduce by rings of so many ranks, for which NCCL counted so many nodes.
func onRing(ranks, nodes, channels int, proto string, count int64) bench.Case {
	top := &nccllog.Topology{Ranks: ranks, Nodes: nodes, CollChannels: channels}
	for c := range channels {
		var ring []int
		for r := range ranks {
			ring = append(ring, (r+c)%ranks)
		}
		top.Rings = append(top.Rings, ring)
	}
	return bench.Case{Collective: nccl.AllReduce, Type: nccl.Float, Ranks: ranks, Count: count, Iters: 2,
		Size: 4 * count, Topology: top, NCCL: "2.29.7",
		Decision: &nccllog.Decision{Algo: "Ring", Proto: proto, ChannelLo: nccllog.Unknown, ChannelHi: nccllog.Unknown}}
}

// An NVLink domain takes the time of one node with all of its GPUs, and one of a node that of no domain, both to the
// nanosecond. Nothing of it crosses the links of the fabric.
func TestDomainIsOneNode(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		nodes, gpus := rapid.IntRange(2, 4).Draw(r, "nodes"), rapid.IntRange(1, 3).Draw(r, "gpus")
		kind := rapid.SampledFrom([]string{"gb200", "b200"}).Draw(r, "kind")
		call := func(of int) bench.Case {
			return onRing(nodes*gpus, of, rapid.IntRange(1, 3).Draw(r, "channels"),
				rapid.SampledFrom([]string{"LL", "LL128", "Simple"}).Draw(r, "proto"),
				rapid.Int64Range(1, 1<<13).Draw(r, "count"))
		}
		times := func(nodes, gpus, domain int, call bench.Case) bench.Expectation {
			f := fabricOf(r, kind, func(c *configs.Fabric) { c.Nodes, c.GPUsPerNode, c.NVLinkDomain = nodes, gpus, domain })
			times := New(f, func(rank int) int { return rank / gpus }, func(string) string { return "" })
			e, known := times.Of(r.Context(), call)
			if !known {
				r.Fatal(times.Problem)
			}
			if nodes <= max(domain/gpus, 1) && times.Bound(call) != 0 {
				r.Fatalf("at least %v between nodes", times.Bound(call))
			}
			// Which of several equal links: they have other names and numbers on one node.
			e.Busiest.Name, e.Crossed = "", nil
			return e
		}
		one := call(1)
		node := times(1, nodes*gpus, 0, one)
		if domain := times(nodes, gpus, nodes*gpus, one); !reflect.DeepEqual(domain, node) {
			r.Errorf("a domain of %d nodes of %d GPUs: %+v, one node: %+v", nodes, gpus, domain, node)
		}
		apart := call(nodes)
		links := times(nodes, gpus, 1, apart)
		if own := times(nodes, gpus, gpus, apart); !reflect.DeepEqual(own, links) {
			r.Errorf("domains of a node of %d GPUs: %+v, none: %+v", gpus, own, links)
		}
		if kind == "b200" && !reflect.DeepEqual(times(nodes, gpus, 0, apart), links) {
			r.Errorf("b200 without a domain differs")
		}
	})
}

// Two domains are NCCL's two nodes: their NICs carry what crosses, by the ports of all their nodes.
func TestTwoDomains(t *testing.T) {
	f := fabricOf(t, "gb200", func(c *configs.Fabric) { c.Nodes, c.GPUsPerNode, c.NVLinkDomain = 4, 1, 2 })
	times := New(f, func(rank int) int { return rank }, func(string) string { return "" })
	call := onRing(4, 2, 1, "Simple", 1<<20)
	if e, known := times.Of(t.Context(), call); !known || e.BusiestHop == 0 {
		t.Errorf("%+v, %s", e, times.Problem)
	}
	// half of the data, twice, over the ports of two nodes
	want := 4 * float64(1<<20) / (2 * f.Config.Link.PayloadRate())
	if got := times.Bound(call).Seconds(); math.Abs(got/want-1) > 1e-3 {
		t.Errorf("at least %v s, want %v", got, want)
	}
	// A ring leaves a domain once: of four links, two are NVLinks.
	e, err := times.Fabric(nil)
	if err != nil {
		t.Fatal(err)
	}
	for rank, domain := range []int{0, 0, 1, 1} {
		if got := e.Node(rank); got != domain {
			t.Errorf("rank %d is in domain %d, want %d", rank, got, domain)
		}
	}
}

// A decision that NCCL made without the NVLinks between nodes is none for them.
func TestDecisionForOtherNodes(t *testing.T) {
	f := fabricOf(t, "gb200", func(c *configs.Fabric) { c.Nodes, c.GPUsPerNode = 2, 2 })
	times := New(f, func(rank int) int { return rank / 2 }, func(string) string { return "" })
	_, known := times.Of(t.Context(), onRing(4, 2, 1, "LL", 8))
	if known || !strings.Contains(times.Problem, "NCCL counts 2 nodes, and NVLinks make 1 node of the emulated ones") {
		t.Errorf("%q", times.Problem)
	}
	if _, known := times.Of(t.Context(), onRing(2, 1, 1, "LL", 8)); !known { // a communicator within a node
		t.Error(times.Problem)
	}
}
