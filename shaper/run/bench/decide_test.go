// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// Without running a call, NCCL makes the same decision on it and the same connections as when it runs it.
func TestDecidesAsItRuns(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		for c := nccl.AllReduce; c.Known(); c++ {
			if testing.Short() && c != nccl.AllReduce {
				break // under the race detector, which sees this process alone: it does the same for each collective
			}
			t.Run(fmt.Sprintf("%s %v", v.full, c), func(t *testing.T) {
				cfg := realConfig(t, v.short, 4)
				env := cfg.Env
				cfg.Env = func(rank int) []string {
					return append(env(rank),
						fmt.Sprintf("NCCL_HOSTID=bench-test-%d", rank/2))
				}
				cfg.Collective, cfg.Sizes, cfg.Ops = c, []int64{64, 32 << 10, 512 << 10, 4 << 20},
					[]nccl.RedOp{nccl.Sum, nccl.Avg}
				cfg.Check, cfg.Iters, cfg.OutOfPlace = false, 1, true
				result, err := Run(testContext(t), cfg, nil)
				if err != nil {
					t.Fatal(err)
				}
				cases, info, err := Decide(testContext(t), cfg, 1)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(result.Info.Topology, info.Topology); d != "" || info.Topology == nil {
					t.Errorf("topology: %s", d)
				}
				if len(cases) != len(result.Rows) {
					t.Fatalf("%d calls, want %d", len(cases), len(result.Rows))
				}
				last := result.Rows[len(result.Rows)-1].OutOfPlace.Case // NCCL connects when a call needs it
				for i, got := range cases {
					want := result.Rows[i].OutOfPlace.Case
					if d := cmp.Diff(want.Decision, got.Decision); d != "" || (got.Decision == nil) != c.IsP2P() {
						t.Errorf("%d bytes: %s", got.Size, d)
					}
					if d := cmp.Diff(last.NICs, got.NICs, cmpopts.EquateEmpty()); d != "" {
						t.Errorf("%d bytes: NICs: %s", got.Size, d)
					}
					if got.Size != want.Size || got.Count != want.Count || got.Op != want.Op || got.NCCL != v.full {
						t.Errorf("%+v, want %+v", got, want)
					}
				}
			})
		}
	}
}

// A decision needs no memory for the call: here each of two buffers would have a terabyte.
func TestDecidesOnAnySize(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		cfg := realConfig(t, v.short, 2)
		cfg.Sizes = []int64{1 << 20, 1 << 40}
		cases, _, err := Decide(testContext(t), cfg, 1)
		if err != nil {
			t.Fatal(err)
		}
		if d := cases[1].Decision; d == nil || d.Bytes != 1<<40 || d.Algo != nccllog.AlgoRing ||
			d.Proto != nccllog.ProtoSimple {
			t.Errorf("%s: %+v", v.full, d)
		}
	}
}

// Where kernels cannot be refused, each call is run, but not more than the limit of it.
func TestDecideRunsAtMost(t *testing.T) {
	cfg := fakeConfig(t, 2)
	cfg.Sizes = []int64{64, 4096, 1 << 20, 1 << 40}
	cases, _, err := Decide(testContext(t), cfg, 4096)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{64, 4096, 4096, 4096} {
		if got := cases[i]; got.Size != cfg.Sizes[i] || got.Decision == nil || got.Decision.Bytes != want {
			t.Errorf("%d bytes: %+v, want the decision on %d", got.Size, got.Decision, want)
		}
	}
}
