// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
)

// What is not given follows from the rest. What is given holds, or is refused: no node that the user gave is left out.
func TestPlace(t *testing.T) {
	all := PlaceFlags{Ranks: true, Nodes: true, GPUs: true}
	for _, tc := range []struct {
		name                 string
		ranks, nodes, gpus   int
		given                PlaceFlags
		shared               string
		wantRanks, wantNodes int
		wantGPUs             int
		wantError            string
	}{
		{name: "a profile", nodes: 2, wantRanks: 2, wantNodes: 2, wantGPUs: 1},
		{name: "ranks on a profile", ranks: 4, nodes: 2, given: PlaceFlags{Ranks: true}, wantRanks: 4, wantNodes: 4,
			wantGPUs: 1},
		{name: "ranks and nodes", ranks: 4, nodes: 2, given: PlaceFlags{Ranks: true, Nodes: true}, wantRanks: 4,
			wantNodes: 2, wantGPUs: 2},
		{name: "ranks and GPUs: the nodes of the profile are adapted", ranks: 8, nodes: 2, gpus: 2,
			given: PlaceFlags{Ranks: true, GPUs: true}, wantRanks: 8, wantNodes: 4, wantGPUs: 2},
		{name: "nodes and GPUs", nodes: 3, gpus: 2, given: PlaceFlags{Nodes: true, GPUs: true}, wantRanks: 6,
			wantNodes: 3, wantGPUs: 2},
		{name: "all", ranks: 6, nodes: 3, gpus: 2, given: all, wantRanks: 6, wantNodes: 3, wantGPUs: 2},
		{name: "all, and the last node has a GPU without a rank", ranks: 5, nodes: 3, gpus: 2, given: all, wantRanks: 5,
			wantNodes: 3, wantGPUs: 2},
		{name: "an empty node", ranks: 4, nodes: 3, gpus: 2, given: all, wantError: "leave 1 of 3 nodes empty"},
		{name: "an empty node for the ranks of a workload", ranks: 3, nodes: 5, gpus: 2,
			given: PlaceFlags{Nodes: true, GPUs: true}, wantError: "leave 3 of 5 nodes empty"},
		{name: "too few GPUs", ranks: 7, nodes: 3, gpus: 2, given: all,
			wantError: "7 ranks are more than 3 nodes x 2 GPUs"},
		{name: "as many NICs as there can be", ranks: 256, given: PlaceFlags{Ranks: true}, wantRanks: 256,
			wantNodes: 256, wantGPUs: 1},
		{name: "more NICs than there can be", ranks: 300, given: PlaceFlags{Ranks: true},
			wantError: "--ranks 300: 300 nodes with 1 NIC each are 300 NICs, and a fabric has at most 256"},
		{name: "more GPUs per node", ranks: 512, gpus: 2, given: PlaceFlags{Ranks: true, GPUs: true}, wantRanks: 512,
			wantNodes: 256, wantGPUs: 2},
		{name: "more ranks than can take part", ranks: 1024, gpus: 8, given: PlaceFlags{Ranks: true, GPUs: true},
			wantError: "--ranks 1024: at most 512 can take part in a fabric"},
		{name: "nodes that do not divide", ranks: 4, nodes: 3, given: PlaceFlags{Ranks: true, Nodes: true},
			wantError: "4 ranks do not divide among 3 nodes"},
		{name: "a fabric that is up: those of its nodes that the ranks need", ranks: 4, nodes: 4, gpus: 2,
			given: PlaceFlags{Ranks: true}, shared: "x", wantRanks: 4, wantNodes: 2, wantGPUs: 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := configs.Load(configs.Source{Profile: "eth10", Getenv: func(string) string { return "" }})
			if err != nil {
				t.Fatal(err)
			}
			c.Nodes, c.GPUsPerNode = tc.nodes, tc.gpus
			ranks, err := Place(c, tc.ranks, tc.given, tc.shared)
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Fatalf("%d ranks, error %v, want %q", ranks, err, tc.wantError)
				}
				return
			}
			if err != nil || ranks != tc.wantRanks || c.Nodes != tc.wantNodes || c.GPUsPerNode != tc.wantGPUs {
				t.Errorf("%d ranks on %d nodes x %d GPUs, error %v, want %d on %d x %d", ranks, c.Nodes, c.GPUsPerNode,
					err, tc.wantRanks, tc.wantNodes, tc.wantGPUs)
			}
		})
	}
}

func TestOtherNodes(t *testing.T) {
	for _, tc := range []struct {
		given, ranks, nodes, gpus int
		want                      string
	}{
		{6, 6, 6, 1, ""},
		{6, 7, 7, 1, "f.yaml:2 gives 6 nodes, but 7 ranks with 1 GPU on each node take 7"},
		{6, 12, 12, 1,
			"f.yaml:2 gives 6 nodes, but 12 ranks with 1 GPU on each node take 12: --nodes 6 puts 2 ranks on each"},
		{6, 4, 4, 1, "f.yaml:2 gives 6 nodes, but 4 ranks with 1 GPU on each node take 4"},
		{1, 4, 2, 2, "f.yaml:2 gives 1 node, but 4 ranks with 2 GPUs on each node take 2"},
	} {
		c := &configs.Fabric{Nodes: tc.nodes, GPUsPerNode: tc.gpus}
		if got := OtherNodes("f.yaml:2", tc.given, tc.ranks, c); got != tc.want {
			t.Errorf("%d nodes, %d ranks: %q, want %q", tc.given, tc.ranks, got, tc.want)
		}
	}
}
