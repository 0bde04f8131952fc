// SPDX-License-Identifier: Apache-2.0

package link_test

import (
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// One message of 1 MB crosses one hop of 8 Gb/s with a latency of 5 us, in virtual time: the clear-to-send takes 5 us,
// the bytes 1 ms, and the last of them arrives 5 us later.
func ExampleNetwork() {
	params, err := link.NewParams(link.Spec{Bandwidth: 8e9, Latency: 5 * time.Microsecond, MTU: 9000}, 1)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	n := link.NewNetwork([]link.Params{params}, &link.Transport{Kind: link.RDMA, DownTimeout: int64(time.Second)}, nil,
		1)
	defer n.Close()
	flow := n.NewFlow(1, []link.PathHop{{Hop: 0}}, []int{0})
	flow.Post(1_000_000, 0)
	flow.Recv(0)
	// Advance returns the time of the next step.
	for now := int64(0); now != link.Never; now = flow.Advance(now) {
	}
	fmt.Println("due after", time.Duration(flow.Message(0).Due))
	fmt.Println("bytes on the line:", n.Hops[0].Counters.LineBytes)
	// Output:
	// due after 1.01ms
	// bytes on the line: 1000000
}
