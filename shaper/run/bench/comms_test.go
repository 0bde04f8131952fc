// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// Communicators over subsets of the ranks: each has its own topology, decisions and connections, with its own ranks.
func TestRealSeveralCommunicators(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.full, func(t *testing.T) {
			ctx := testContext(t)
			ranks, err := StartRanks(ctx, realConfig(t, v.short, 4))
			if err != nil {
				t.Fatal(err)
			}
			comms := []Comm{{"t0", []int{0, 1}}, {"t1", []int{2, 3}}, {"d0", []int{2, 0}}, {"d1", []int{1, 3}},
				{"w", []int{3, 2, 1, 0}}}
			for _, c := range comms {
				if err := ranks.InitComm(ctx, c); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range comms {
				n := len(c.Ranks)
				cfg := Config{Collective: nccl.AllReduce, Sizes: []int64{1000, 4 << 20}, Ranks: n, Iters: 1}
				all, err := ranks.DecideOn(ctx, c.Name, cfg.Cases())
				if err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
				for _, one := range all {
					if one.Decision == nil || one.Decision.Bytes != one.Size || one.Topology.Ranks != n ||
						one.Topology.Nodes != n || len(one.Topology.Rings[0]) != n {
						t.Errorf("%s: %+v, topology %+v", c.Name, one.Decision, one.Topology)
					}
				}
			}
			// The connections for sends and receives are made at the first of them, and logged without the
			// communicator.
			for _, c := range comms {
				cfg := Config{Collective: nccl.AllToAll, Sizes: []int64{1 << 20}, Ranks: len(c.Ranks), Iters: 1}
				if _, err := ranks.DecideOn(ctx, c.Name, cfg.Cases()); err != nil {
					t.Fatalf("%s: %v", c.Name, err)
				}
			}
			for _, c := range comms {
				nics := nccllog.NICsOf(ranks.made[c.Name].logs)
				messages := 0
				for pair := range nics {
					if pair.P2P {
						messages++
					}
					if pair.From >= len(c.Ranks) || pair.To >= len(c.Ranks) {
						t.Errorf("%s: a connection %+v", c.Name, pair)
					}
				}
				if messages == 0 || messages == len(nics) {
					t.Errorf("%s: %d of %d connections are for messages", c.Name, messages, len(nics))
				}
			}
			if err := ranks.Destroy(ctx); err != nil {
				t.Error(err)
			}
			if err := ranks.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
