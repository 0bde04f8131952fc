// SPDX-License-Identifier: Apache-2.0

package nccllog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

func twoByTwo() []*Comm {
	via := func(from, to int, via string) Connection { return Connection{From: from, To: to, Via: via} }
	return []*Comm{
		{Rank: 0, Ranks: 4, Nodes: 2, Network: "goemu", CollChannels: 1, Neighbours: []Neighbours{{3, 1}},
			Rings: [][]int{{0, 1, 2, 3}},
			Trees: []TreeNode{{Up: -1, Down: []int{1, 2}}}, Connections: []Connection{via(0, 1, "P2P/IPC"),
				{From: 3, To: 0, Receive: true, Via: "NET/goemu/0"}}},
		{Rank: 1, Ranks: 4, Nodes: 2, Neighbours: []Neighbours{{0, 2}}, Trees: []TreeNode{{Up: 0}},
			Connections: []Connection{via(1, 2, "NET/goemu/0")}},
		{Rank: 2, Ranks: 4, Nodes: 2, Neighbours: []Neighbours{{1, 3}}, Trees: []TreeNode{{Up: 0, Down: []int{3}}},
			Connections: []Connection{via(2, 3, "P2P/IPC")}},
		{Rank: 3, Ranks: 4, Nodes: 2, Neighbours: []Neighbours{{2, 0}}, Trees: []TreeNode{{Up: 2}},
			Connections: []Connection{via(3, 0, "NET/goemu/1/Shared")}},
	}
}

func TestCombine(t *testing.T) {
	comms := twoByTwo()
	comms[0].LatencyUS = map[nccl.Collective]map[Kernel]float64{nccl.AllReduce: {{AlgoRing, ProtoLL}: 24.2}}
	topology, err := Combine(comms)
	if err != nil {
		t.Fatal(err)
	}
	want := &Topology{
		LatencyUS: comms[0].LatencyUS,
		Ranks:     4, Nodes: 2, Network: "goemu", CollChannels: 1, Rings: [][]int{{0, 1, 2, 3}},
		Trees: [][]TreeNode{{{Up: -1, Down: []int{1, 2}}, {Up: 0}, {Up: 0, Down: []int{3}}, {Up: 2}}},
	}
	if diff := cmp.Diff(want, topology); diff != "" {
		t.Error(diff)
	}
	transports := map[string]int{"P2P/IPC": 2, "NET/goemu": 2}
	if diff := cmp.Diff(transports, Transports(append(comms, nil))); diff != "" {
		t.Error(diff)
	}
	// Without the neighbours (GRAPH), the printed order is used if it is complete.
	for _, c := range comms {
		c.Neighbours = nil
	}
	if topology, _ = Combine(comms); len(topology.Rings) != 1 || len(topology.Rings[0]) != 4 {
		t.Errorf("%v", topology.Rings)
	}
	comms[0].Rings[0] = []int{0, 1} // cut off
	if topology, _ = Combine(comms); len(topology.Rings) != 1 || topology.Rings[0] != nil {
		t.Errorf("%v", topology.Rings)
	}
}

func TestCombineRefuses(t *testing.T) {
	for name, spoil := range map[string]func([]*Comm) []*Comm{
		"none":                func([]*Comm) []*Comm { return nil },
		"one is missing":      func(c []*Comm) []*Comm { c[2] = nil; return c },
		"one is empty":        func(c []*Comm) []*Comm { c[2] = &Comm{}; return c },
		"too few":             func(c []*Comm) []*Comm { return c[:3] },
		"in the wrong order":  func(c []*Comm) []*Comm { c[1], c[2] = c[2], c[1]; return c },
		"different node sums": func(c []*Comm) []*Comm { c[3].Nodes = 4; return c },
	} {
		if topology, err := Combine(spoil(twoByTwo())); err == nil {
			t.Errorf("%s: %+v", name, topology)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q", name, err)
		}
	}
}

func TestCombineBrokenRing(t *testing.T) {
	for name, next := range map[string]int{"two rings": 0, "no such rank": 9, "unknown": Unknown} {
		comms := twoByTwo()
		comms[1].Neighbours[0].Next = next
		comms[0].Rings = nil
		if topology, err := Combine(comms); err != nil || topology.Rings[0] != nil {
			t.Errorf("%s: %+v, %v", name, topology, err)
		}
	}
}
