// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// oneCCL computes the right sums over libfabric's TCP provider, and two rounds take two latencies. One round may take
// less if the other rank's data has already arrived, but that rank starts the next round only after it has this
// rank's data.
func TestOneCCL(t *testing.T) {
	w := newUser(t, "g++")
	prefix := world.Absolute(t, "..", "..", "build", "oneccl")
	lib := filepath.Join(prefix, "lib")
	needs.PyPI(t, filepath.Join(prefix, "version"))
	// LD_LIBRARY_PATH has the libraries that libccl needs.
	w.run("g++", "-O1", "-std=c++17", "-Wall", "-isystem", filepath.Join(prefix, "include"),
		world.Absolute(t, "testdata", "oneccl.cc"),
		"-L"+lib, "-l:libccl.so.1", "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o",
		filepath.Join(w.work, "oneccl"))
	o := w.shell("CCL_WORKER_OFFLOAD=0 CCL_ATL_TRANSPORT=ofi FI_PROVIDER=tcp LD_LIBRARY_PATH=" + lib +
		" ddlemu run --profile eth1 --lat 15ms --nodes 2 --set datapath=kernel --per-node -- ./oneccl")
	shortest := math.Inf(1)
	for line := range strings.Lines(o.Stdout) {
		var (
			node, rank int
			ms         float64
		)
		if _, err := fmt.Sscanf(line, "node%d | rank %d two rounds %f ms", &node, &rank, &ms); err == nil {
			shortest = min(shortest, ms)
		}
	}
	t.Logf("two rounds took %.1f ms", shortest)
	// On a small host, oneCCL's polling threads delay each other, so the time may be up to twice as long.
	if !near(shortest, 2*15, 1, 2) {
		t.Errorf("two rounds took %.1f ms, want 30 to 60 ms", shortest)
	}
}
