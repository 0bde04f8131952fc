// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"os"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/bench/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// AddLeast adds to least the minimum of bytes that calls of a communicator move between each node and the others.
// node returns the node of a rank of the communicator. Launches of a case is how often it was called.
func AddLeast(least map[int]job.Traffic, f *fabric.Fabric, node func(rank int) int, calls []bench.Case) {
	times := expected.New(f, node, os.Getenv)
	for _, c := range calls {
		times.Move(c)
	}
	for n, t := range times.Least() {
		sum := least[n]
		sum.Out += t.Out
		sum.In += t.In
		least[n] = sum
	}
}
