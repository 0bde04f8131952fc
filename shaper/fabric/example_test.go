// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// A path is the hops from one NIC to another: a send port, the link, trunks, a receive port.
func ExampleFabric_Path() {
	c, err := configs.Load(configs.Source{File: "../../configs/examples/leaf-spine.yaml",
		Getenv: func(string) string { return "" }})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	f, err := fabric.New(c)
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	for _, step := range f.Path(f.NIC(0, 0), f.NIC(c.Nodes-1, 0)) {
		fmt.Println(f.HopName(step.Hop))
	}
	fmt.Println("one way:", f.Latency(0, f.NIC(c.Nodes-1, 0)))
	// Output:
	// node0 tx
	// node0:node7
	// leaf0:spine0
	// spine0:leaf1
	// node7 rx
	// one way: 27µs
}
