// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// longCall is a call of so many MiB on two nodes that take time.
func longCall(mib uint64) (plan.Decision, *Fabric) {
	s := star{perNode: 4, bandwidth: 400e9, latency: 1500, tr: rdma(), jitter: link.Jitter{Kind: link.Normal, Value: 60}}
	f := s.build()
	f.InOrder = true
	addNodes(f, 8, node.Time{Kernel: 6000, Simple: node.Cost{Step: 2500, PerByte: 0.03}}, 300)
	d := decide(nccl.AllReduce, plan.Tree, plan.Simple, 8, 1, mib<<20)
	d.Iterations, d.LocalTime = 4, true
	return d, f
}

// Calls of several sizes are continued from the same shorter ones, with the same result. Others are simulated anew.
func TestMemo(t *testing.T) {
	memo := NewMemo()
	var simulations []int // in memo
	for _, mib := range []uint64{256, 512, 1024} {
		d, f := longCall(mib)
		alone, err := Simulate(t.Context(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		shared, err := memo.Simulate(t.Context(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		shared.transport, alone.transport = nil, nil
		if !reflect.DeepEqual(shared, alone) || !alone.Extrapolated {
			t.Errorf("%d MiB: %v ns, alone %v, extrapolated: %v", mib, shared.Time, alone.Time, alone.Extrapolated)
		}
		simulations = append(simulations, len(memo.known))
	}
	if n := simulations[0]; n == 0 || simulations[1] != n || simulations[2] != n {
		t.Errorf("%d simulations, want as many for each size", simulations)
	}
	for n, change := range map[string]func(d *plan.Decision){
		"another algorithm": func(d *plan.Decision) { d.Algo = plan.Ring },
		"more iterations":   func(d *plan.Decision) { d.Iterations++ },
	} {
		before := len(memo.known)
		d, f := longCall(256)
		change(&d)
		if _, err := memo.Simulate(t.Context(), d, f); err != nil || len(memo.known) == before {
			t.Errorf("%s: %d simulations, before %d; %v", n, len(memo.known), before, err)
		}
	}
}

// What was interrupted is not remembered.
func TestMemoOfAnInterruptedCall(t *testing.T) {
	d, f := longCall(256)
	memo := NewMemo()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := memo.Simulate(ctx, d, f); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if _, err := memo.Simulate(t.Context(), d, f); err != nil {
		t.Error(err)
	}
}
