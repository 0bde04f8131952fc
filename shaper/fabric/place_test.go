// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
)

// env makes a lookup function of NAME=value pairs.
func env(pairs string) func(string) string {
	m := map[string]string{}
	for _, pair := range strings.Fields(pairs) {
		name, value, _ := strings.Cut(pair, "=")
		m[name] = value
	}
	return func(name string) string { return m[name] }
}

func TestNodeOf(t *testing.T) {
	for _, c := range []struct {
		name        string
		env         string
		nodes, gpus int
		want        Placement
	}{
		{"by hand", "DDLEMU_NODE=1", 2, 0, Placement{-1, 0, 1, "DDLEMU_NODE"}},
		{"by hand, by name", "DDLEMU_NODE=node1", 2, 0, Placement{-1, 0, 1, "DDLEMU_NODE"}},
		{"by hand over everything", "DDLEMU_NODE=0 GROUP_RANK=1 GROUP_WORLD_SIZE=2 RANK=3 WORLD_SIZE=4", 2, 2,
			Placement{3, 4, 0, "DDLEMU_NODE"}},
		{"by hand, ranks that do not divide", "DDLEMU_NODE=1 RANK=2 WORLD_SIZE=3", 2, 0,
			Placement{2, 3, 1, "DDLEMU_NODE"}},
		{"agents", "GROUP_RANK=1 GROUP_WORLD_SIZE=2 RANK=0 WORLD_SIZE=4", 2, 2, Placement{0, 4, 1, "GROUP_RANK"}},
		{"agents without ranks", "GROUP_RANK=1 GROUP_WORLD_SIZE=2", 2, 0, Placement{-1, 0, 1, "GROUP_RANK"}},
		{"one agent is no node", "GROUP_RANK=0 GROUP_WORLD_SIZE=1 RANK=3 WORLD_SIZE=4", 2, 2,
			Placement{3, 4, 1, "RANK"}},
		{"agents without their number", "GROUP_RANK=1 RANK=0 WORLD_SIZE=2", 2, 0, Placement{0, 2, 0, "RANK"}},
		{"torchrun, divided", "RANK=3 WORLD_SIZE=4 LOCAL_RANK=3 LOCAL_WORLD_SIZE=4", 2, 0, Placement{3, 4, 1, "RANK"}},
		{"torchrun, given", "RANK=3 WORLD_SIZE=4", 4, 1, Placement{3, 4, 3, "RANK"}},
		{"fewer ranks than GPUs", "RANK=1 WORLD_SIZE=2", 2, 4, Placement{1, 2, 0, "RANK"}},
		{"given, world unknown", "RANK=3", 2, 2, Placement{3, 0, 1, "RANK"}},
		{"Open MPI", "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 SLURM_PROCID=0 SLURM_NTASKS=1", 2, 0,
			Placement{1, 2, 1, "OMPI_COMM_WORLD_RANK"}},
		{"PMIx", "PMIX_RANK=1 SLURM_PROCID=0 SLURM_NTASKS=2", 2, 0, Placement{1, 2, 1, "PMIX_RANK"}},
		{"MPICH", "PMI_RANK=5 PMI_SIZE=6", 3, 0, Placement{5, 6, 2, "PMI_RANK"}},
		{"Slurm", "SLURM_PROCID=2 SLURM_NTASKS=4 LOCAL_RANK=0", 4, 0, Placement{2, 4, 2, "SLURM_PROCID"}},
		{"local rank alone", "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", 2, 0, Placement{1, 2, 1, "LOCAL_RANK"}},
	} {
		got, err := NodeOf(env(c.env), c.nodes, c.gpus)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestNodeOfRefuses(t *testing.T) {
	for _, c := range []struct {
		name        string
		env         string
		nodes, gpus int
		why         string
	}{
		{"nothing set", "", 2, 0, "no launcher's variable"},
		{"nothing set but the world", "WORLD_SIZE=2", 2, 0, "no launcher's variable"},
		{"node that is none", "DDLEMU_NODE=first", 2, 0, `DDLEMU_NODE: "first" is not a node`},
		{"negative node", "DDLEMU_NODE=-1", 2, 0, "is not a node"},
		{"node beyond the fabric", "DDLEMU_NODE=2", 2, 0, "node 2: the fabric has node 0 to 1"},
		{"agent beyond the fabric", "GROUP_RANK=2 GROUP_WORLD_SIZE=3", 2, 0, "GROUP_RANK: places this rank on node 2"},
		{"agent beyond the agents", "GROUP_RANK=2 GROUP_WORLD_SIZE=2", 4, 0, "below GROUP_WORLD_SIZE"},
		{"agent that is none", "GROUP_RANK=x GROUP_WORLD_SIZE=2", 2, 0, `GROUP_RANK: "x"`},
		{"agents that are none", "GROUP_RANK=0 GROUP_WORLD_SIZE=two", 2, 0, `GROUP_WORLD_SIZE: "two"`},
		{"agent missing", "GROUP_WORLD_SIZE=2 RANK=0 WORLD_SIZE=2", 2, 0, "GROUP_RANK: unset"},
		{"rank beyond the fabric", "RANK=4", 2, 2, "node 2: the fabric"},
		{"rank beyond the world", "RANK=2 WORLD_SIZE=2", 2, 0, "RANK: rank 2 of the 2 in WORLD_SIZE"},
		{"rank that is none", "RANK=1.5 WORLD_SIZE=2", 2, 0, `RANK: "1.5"`},
		{"world that is none", "RANK=1 WORLD_SIZE=0x2", 2, 0, `WORLD_SIZE: "0x2"`},
		{"empty world", "RANK=0 WORLD_SIZE=0", 2, 0, "at least 1"},
		{"more ranks than GPUs", "RANK=0 WORLD_SIZE=5", 2, 2, "more than the fabric's 2 nodes x 2 GPUs: give --set gpus_per_node=3"},
		{"ranks that do not divide", "RANK=0 WORLD_SIZE=3", 2, 0, "3 ranks do not divide among 2 nodes"},
		{"world unknown", "RANK=0", 2, 0, "WORLD_SIZE: unset"},
	} {
		got, err := NodeOf(env(c.env), c.nodes, c.gpus)
		if err == nil || !strings.Contains(err.Error(), c.why) || !strings.Contains(err.Error(), NodeEnv) {
			t.Errorf("%s: %+v, %v; want an error with %q that names %s", c.name, got, err, c.why, NodeEnv)
		}
		if !configs.IsUserError(err) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want one line that is the user's", c.name, err)
		}
	}
}

// Every node gets the same number of ranks, in order.
func TestRanksFillNodesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.IntRange(1, 8).Draw(t, "nodes")
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		given := rapid.SampledFrom([]int{0, gpus}).Draw(t, "given")
		for rank := range nodes * gpus {
			p, err := NodeOf(env(fmt.Sprintf("RANK=%d WORLD_SIZE=%d", rank, nodes*gpus)), nodes, given)
			if err != nil || p.Node != rank/gpus || p.Rank != rank || p.World != nodes*gpus {
				t.Fatalf("rank %d of %d x %d: %+v, %v", rank, nodes, gpus, p, err)
			}
		}
	})
}
