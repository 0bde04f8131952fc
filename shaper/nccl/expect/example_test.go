// SPDX-License-Identifier: Apache-2.0

package expect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// The time that NCCL 2.22 needs for an AllReduce of 64 MiB between two ranks on two nodes, with a ring and the protocol
// Simple, over links of 100 Gb/s.
func ExampleSimulate() {
	params, err := link.NewParams(link.Spec{Bandwidth: 100e9, Latency: 5 * time.Microsecond, MTU: 9000}, 1)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	f := expect.Fabric{
		Params:    []link.Params{params, params}, // one link in each direction
		Transport: &link.Transport{Kind: link.RDMA, DownTimeout: int64(time.Second)},
		Node:      func(rank int) int { return rank },
		Path: func(c expect.Conn) ([]link.PathHop, []int, error) {
			return []link.PathHop{{Hop: c.Src}}, []int{c.Dst}, nil
		},
	}
	d := plan.Decision{
		Version: 22203, Coll: nccl.AllReduce, Algo: plan.Ring, Proto: plan.Simple,
		Ranks: 2, Count: 16 << 20, ElemSize: 4, Channels: 1, Rings: [][]int{{0, 1}},
	}
	e, err := expect.Simulate(context.Background(), d, &f)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Printf("%.0f us, at least %.0f us\n", e.Time/1e3, e.Bound/1e3)
	// Output:
	// 5454 us, at least 5369 us
}
