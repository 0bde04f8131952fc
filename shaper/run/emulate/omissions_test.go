// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// What the numbers lack depends on what the fabric has in force, and on what is measured.
func TestNotIn(t *testing.T) {
	const (
		jobs  = "other traffic"
		star  = "trunks (topology star)"
		stack = "kernel network stack"
		nics  = "NIC time per message"
	)
	leaves := func(spines int) configs.Topology {
		return configs.Topology{Kind: "leaf-spine", Leaves: 2, Spines: spines,
			Trunk: configs.LinkPatch{Latency: new(600 * time.Nanosecond)}}
	}
	without := Header{Fabric: configs.InForce{GPUTime: "none (add --gpu KIND --set node_time=on)"}}
	for _, tc := range []struct {
		name, profile string
		change        func(*configs.Fabric)
		o             Options
		measured      bool
		nodes         int // that the ranks use; 0: 2
		want          []string
	}{
		{name: "links of TCP", profile: "eth10", o: Options{Header: without},
			want: []string{"GPU and launch time (add --gpu KIND --set node_time=on)", stack, star, jobs}},
		{name: "measured", profile: "eth10", o: Options{Header: without}, measured: true,
			want: []string{"GPU and launch time (add --gpu KIND --set node_time=on)", stack, star, jobs}},
		{name: "on a fabric that is up", profile: "ndr400", o: Options{Header: without, Shared: "mine"},
			measured: true, want: []string{"GPU and launch time (add --gpu KIND --set node_time=on)", nics, star}},
		{name: "several GPUs", profile: "ndr400", change: func(c *configs.Fabric) { c.GPUsPerNode = 2 },
			o: Options{Header: without}, measured: true,
			want: []string{"GPU and launch time, links within a node (add --gpu KIND --set node_time=on)", nics, star, jobs}},
		{name: "real GPUs", profile: "ndr400", o: Options{Libraries: locate.Libraries{CUDA: "gpu"}}, measured: true,
			want: []string{"in expected times, GPU and launch time", nics, star, jobs}},
		{name: "kernel datapath", profile: "eth10", change: func(c *configs.Fabric) { c.Datapath = configs.Kernel },
			o: Options{Header: without}, measured: true,
			want: []string{"GPU and launch time (add --gpu KIND --set node_time=on)", "in expected times, " + stack, star, jobs}},
		{name: "time of hosts", profile: "t4-efa", o: Options{Header: without}, measured: true,
			want: []string{"GPU and launch time (add --gpu KIND --set node_time=on)", star, jobs}},
		{name: "time of nodes", profile: "hgx-h100-ndr400", o: Options{Header: Header{Fabric: configs.InForce{GPUTime: "that of h100-sxm"}}}, measured: true,
			want: []string{star, jobs}},
		{name: "one node", profile: "hgx-h100-ndr400", change: func(c *configs.Fabric) { c.GPUsPerNode = 8 },
			o: Options{Header: Header{Fabric: configs.InForce{GPUTime: "that of h100-sxm"}}}, measured: true, nodes: 1},
		{name: "ECMP by pair", profile: "ndr400", change: func(c *configs.Fabric) { c.Topology = leaves(2) },
			o: Options{Header: without}, measured: true,
			want: []string{"GPU and launch time (add --gpu KIND --set node_time=on)", nics, "several paths between two NICs (ECMP by pair)", jobs}},
		{name: "one path", profile: "ndr400", change: func(c *configs.Fabric) { c.Topology = leaves(1) },
			o: Options{Header: without}, measured: true,
			want: []string{"GPU and launch time (add --gpu KIND --set node_time=on)", nics, jobs}},
		{name: "ECMP by flow", profile: "ndr400",
			change: func(c *configs.Fabric) { c.Topology, c.Topology.ECMP = leaves(2), configs.PerFlow },
			o:      Options{Header: without}, measured: true,
			want: []string{"GPU and launch time (add --gpu KIND --set node_time=on)", nics, jobs}},
	} {
		c, err := configs.Profile(tc.profile)
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes, c.GPUsPerNode = 2, 1
		if tc.change != nil {
			tc.change(c)
		}
		if tc.o.Libraries.CUDA == "" {
			tc.o.Libraries.CUDA = locate.Soft
		}
		tc.o.Bench = bench.Config{Ranks: cmp.Or(tc.nodes, 2) * c.GPUsPerNode}
		got := tc.o.NotIn(c, !tc.measured)
		if strings.Join(got, "; ") != strings.Join(tc.want, "; ") {
			t.Errorf("%s:\n%q, want\n%q", tc.name, got, tc.want)
		}
	}
}
