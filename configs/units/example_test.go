// SPDX-License-Identifier: Apache-2.0

package units_test

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Bandwidths are bits per second with SI prefixes; a B stands for bytes.
func ExampleParseBandwidth() {
	for _, text := range []string{"100Gbps", "25Gbit", "12.5GB/s", "unlimited", "fast"} {
		b, err := units.ParseBandwidth(text)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(uint64(b), b)
	}
	// Output:
	// 100000000000 100Gbps
	// 25000000000 25Gbps
	// 100000000000 100Gbps
	// 0 unlimited
	// error: "fast" is not a bandwidth: write bits per second as 100Gbps, 100G or 25Gbit, bytes per second as 12.5GB/s, or unlimited
}

// Sizes are as nccl-tests writes them: K, M and G are powers of 1024.
func ExampleParseSize() {
	size, err := units.ParseSize("64K")
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(int64(size), size)
	// Output:
	// 65536 64K
}
