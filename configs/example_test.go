// SPDX-License-Identifier: Apache-2.0

package configs_test

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs"
)

// A profile is a fabric with realistic parameters and their sources.
func ExampleProfile() {
	f, err := configs.Profile("eth10")
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(f.Link.Bandwidth, f.Link.Latency, f.Transport.Kind)
	// Output:
	// 10Gbps 25µs tcp
}

// A fabric file may name a profile as its base. An error names the line.
func ExampleDecode() {
	f, err := configs.Decode("mine.yaml", []byte("base: eth10\nnodes: 4\nlink: {latency: 50us}\n"))
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(f.Nodes, f.Link.Bandwidth, f.Link.Latency)

	_, err = configs.Decode("wrong.yaml", []byte("nodes: 4\nlink: {latency: fast}\n"))
	fmt.Println(err)
	// Output:
	// 4 10Gbps 50µs
	// wrong.yaml:2: link.latency: "fast" is not a duration: write 5us, 1.2ms or 3s
}
