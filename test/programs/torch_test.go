// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exchanges is how many latencies a step of testdata/train.py takes: gloo's ring
// AllReduce of 2 ranks has 2 phases, reduce-scatter and allgather, and in each
// gloo's TCP transport sends when it has heard that the receiver is ready.
const exchanges = 4

// PyTorch trains over gloo with one torchrun on each node: the losses are those of
// a run without emulation, and a step takes as much longer as the latency asks.
func TestTorch(t *testing.T) {
	w := newWorld(t, "torchrun:python3-torch")
	if path, _ := exec.LookPath("torchrun"); path == "/usr/bin/torchrun" { // Debian's
		w.path = absolute(t, "testdata", "bin") + ":" + w.path
	}
	w.copy("train.py")
	bare := parseTraining(t, w.run("torchrun", "--nnodes", "1", "--nproc_per_node", "2", "train.py").stdout)
	const low, high = 5.0, 15.0 // ms
	var short, long training
	for try := range 2 { // a busy host makes steps late
		short, long = w.train("5ms", bare), w.train("15ms", bare)
		t.Logf("try %d: the shortest step took %.1f ms bare, %.1f ms at 5 ms, %.1f ms at 15 ms", try, bare.step, short.step, long.step)
		if short.step < exchanges*low || long.step < exchanges*high {
			t.Fatal("a step was shorter than its exchanges")
		}
		if near(long.step-short.step, exchanges*(high-low), 0.95, 1.1) {
			return
		}
	}
	t.Errorf("steps of %.1f ms at 5 ms and %.1f ms at 15 ms: the difference is not %d x 10 ms", short.step, long.step, exchanges)
}

// train is a run on two nodes, whose losses are those of bare.
func (w *world) train(latency string, bare training) training {
	w.Helper()
	const line = "torchrun --nnodes {nodes} --node_rank {node} --master_addr {master} --nproc_per_node 1 train.py"
	w.documented(line)
	o := w.shell("ddlemu run --profile eth1 --lat " + latency + " --nodes 2 --datapath kernel --per-node -- " + line)
	got := parseTraining(w.T, regexp.MustCompile(`(?m)^node[01] \| `).ReplaceAllString(o.stdout, ""))
	if !slices.Equal(got.losses, bare.losses) {
		w.Fatalf("losses at %s: %q, bare %q", latency, got.losses, bare.losses)
	}
	// The traffic was judged, even if on a busy host it was not all on time.
	if !strings.Contains(o.stderr, "\nnode0:node1 ") || !strings.Contains(o.stderr, "verdict: ") || strings.Contains(o.stderr, "nothing was emulated") {
		w.Errorf("the verdict: %s", o.stderr)
	}
	return got
}

// training is what testdata/train.py printed.
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
