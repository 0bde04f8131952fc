// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// An AllReduce of 4 MiB on 16 ranks.
func BenchmarkSimulate(b *testing.B) {
	for b.Loop() {
		if _, err := Simulate(context.Background(), decide(nccl.AllReduce, plan.Ring, plan.Simple, 16, 2, 4<<20),
			eth1(tcp()).build()); err != nil {
			b.Fatal(err)
		}
	}
}
