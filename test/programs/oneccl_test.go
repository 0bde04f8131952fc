// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// oneCCL adds up right over libfabric's TCP provider, and two rounds take two
// latencies: one may find the other rank's numbers there, but the other rank begins
// the next one when it has heard from this one.
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
	o := w.shell("CCL_WORKER_OFFLOAD=0 CCL_ATL_TRANSPORT=ofi FI_PROVIDER=tcp LD_LIBRARY_PATH=" + lib +
		" ddlemu run --profile eth1 --lat 15ms --nodes 2 --datapath kernel --per-node -- ./oneccl")
	shortest := math.Inf(1)
	for line := range strings.Lines(o.stdout) {
		var (
			node, rank int
			ms         float64
		)
		if _, err := fmt.Sscanf(line, "node%d | rank %d two rounds %f ms", &node, &rank, &ms); err == nil {
			shortest = min(shortest, ms)
		}
	}
	t.Logf("two rounds took %.1f ms", shortest)
	// Its threads poll and wait for each other on a small host.
	if !near(shortest, 2*15, 1, 2) {
		t.Errorf("two rounds took %.1f ms, want 2 x 15 ms and not much more", shortest)
	}
}
