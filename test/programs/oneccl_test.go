// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oneCCL adds up right over libfabric's TCP provider, and each AllReduce waits for
// the other rank's numbers, so that its mean time is a latency at least and rises
// with it.
func TestOneCCL(t *testing.T) {
	w := newWorld(t, "g++:g++")
	prefix := absolute(t, "..", "..", "build", "oneccl")
	lib := filepath.Join(prefix, "lib")
	if _, err := os.Stat(filepath.Join(lib, "libccl.so.1")); err != nil {
		t.Skip("SKIPPED: oneCCL is not in build/oneccl (.ci/oneccl installs it from PyPI)")
	}
	// What libccl needs is found by LD_LIBRARY_PATH.
	w.run("g++", "-O1", "-std=c++17", "-Wall", "-isystem", filepath.Join(prefix, "include"), absolute(t, "testdata", "oneccl.cc"),
		"-L"+lib, "-l:libccl.so.1", "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o", filepath.Join(w.work, "oneccl"))
	mean := func(latency string) float64 {
		o := w.shell("rm -f address; CCL_ATL_TRANSPORT=ofi FI_PROVIDER=tcp LD_LIBRARY_PATH=" + lib +
			" ddlemu run --profile eth1 --lat " + latency + " --nodes 2 --datapath kernel --per-node -- ./oneccl")
		longest := 0.0
		for line := range strings.Lines(o.stdout) {
			var (
				node, rank int
				ms         float64
			)
			if _, err := fmt.Sscanf(line, "node%d | rank %d mean %f ms", &node, &rank, &ms); err == nil {
				longest = max(longest, ms)
			}
		}
		return longest
	}
	short, long := mean("5ms"), mean("15ms")
	t.Logf("an AllReduce took %.1f ms at 5 ms, %.1f ms at 15 ms", short, long)
	const rounds = 20 // the first may find the other's numbers there
	if short < 5.*(rounds-1)/rounds || long < 15.*(rounds-1)/rounds {
		t.Error("an AllReduce was done before it could be")
	}
	if long-short < 9.5 {
		t.Error("it does not rise with the latency")
	}
}
