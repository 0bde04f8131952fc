// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// latenciesPerStep is how many latencies a step of testdata/train.py takes. gloo's ring AllReduce of 2 ranks has 2
// phases, reduce-scatter and allgather. In each, gloo's TCP transport waits for a message from the receiver before it
// sends.
const latenciesPerStep = 4

// PyTorch trains over gloo with one torchrun on each node. The losses equal those of a run without emulation, and a
// step takes as much longer as the latency requires.
func TestTorch(t *testing.T) {
	w := newUser(t, "torchrun")
	if needs.Optional(t, "torchrun") == "/usr/bin/torchrun" { // Debian's
		w.path = world.Absolute(t, "testdata", "bin") + ":" + w.path
	}
	w.copy("train.py")
	unemulated := parseTraining(t, w.run("torchrun", "--nnodes", "1", "--nproc_per_node", "2", "train.py").Stdout)
	const low, high = 5.0, 15.0 // ms
	var short, long training
	for try := range 2 { // on a busy host, steps may take longer
		short, long = w.train("5ms", unemulated), w.train("15ms", unemulated)
		t.Logf("try %d: the shortest step took %.1f ms without emulation, %.1f ms at 5 ms, %.1f ms at 15 ms", try,
			unemulated.step, short.step, long.step)
		if short.step < latenciesPerStep*low || long.step < latenciesPerStep*high {
			t.Fatal("a step was shorter than its latencies")
		}
		if near(long.step-short.step, latenciesPerStep*(high-low), 0.95, 1.1) {
			return
		}
	}
	t.Errorf("steps of %.1f ms at 5 ms and %.1f ms at 15 ms: the difference is not %d x 10 ms", short.step, long.step,
		latenciesPerStep)
}

// train runs a training on two nodes. Its losses must equal those of want.
func (w *user) train(latency string, want training) training {
	w.Helper()
	const line = "torchrun --nnodes {nodes} --node_rank {node} --master_addr {master} --nproc_per_node 1 train.py"
	w.documented(line)
	o := w.shell("ddlemu run --profile eth1 --lat " + latency + " --nodes 2 --set datapath=kernel --per-node -- " + line)
	got := parseTraining(w.T, regexp.MustCompile(`(?m)^node[01] \| `).ReplaceAllString(o.Stdout, ""))
	if !slices.Equal(got.losses, want.losses) {
		w.Fatalf("losses at %s: %q, want %q", latency, got.losses, want.losses)
	}
	// There is a verdict, which may be INVALID on a busy host.
	if !strings.Contains(o.Stderr, "\nnode0:node1 ") || !strings.Contains(o.Stderr, "verdict: ") ||
		!strings.Contains(o.Stderr, "traffic: all packets on the fabric: no rank loaded the plugin\n") ||
		strings.Contains(o.Stderr, "nothing was emulated") {
		w.Errorf("no verdict: %s", o.Stderr)
	}
	return got
}

// training is the output of testdata/train.py.
type training struct {
	losses []string // of both ranks, sorted
	step   float64  // the shortest step in ms
}

func parseTraining(t *testing.T, text string) training {
	t.Helper()
	var r training
	for line := range strings.Lines(text) {
		var (
			rank, step int
			loss       string
			ms         float64
		)
		if n, _ := fmt.Sscanf(line, "rank %d step %d loss %s", &rank, &step, &loss); n == 3 {
			r.losses = append(r.losses, strings.TrimSpace(line))
		}
		if n, _ := fmt.Sscanf(line, "rank %d shortest %f ms", &rank, &ms); n == 2 {
			r.step = max(r.step, ms)
		}
	}
	slices.Sort(r.losses)
	if len(r.losses) != 2*20 || r.step == 0 {
		t.Fatalf("%d losses in %s", len(r.losses), text)
	}
	return r
}
