// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startTogether opens the pipes of so many ranks when all have made one.
func startTogether(t *testing.T, dir string, ranks int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		pipes, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(pipes) < ranks {
			continue
		}
		for _, pipe := range pipes {
			f, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		return
	}
	t.Fatalf("%d ranks are not ready", ranks)
}

// Two jobs share a trunk with half of the rate that their NICs have: why names the trunk and the other job,
// and whatif says what one of them would take alone, which is what it takes.
func TestWhyAndWhatIfOfTwoJobs(t *testing.T) {
	t.Parallel()
	dir, bin := folder(t), compile(t, "threads")
	file := writeFabric(t, "base: roce100", "nodes: 2", "link:", "  jitter: none", "topology:", "  kind: leaf-spine",
		"  leaves: 2", "  spines: 1", "  oversubscription: 2:1", "  trunk:", "    latency: 1us")
	if out, err := ddlemu(t.Context(), t, dir, nil, "up", "--file", file, "--name", "two", "--clock",
		"virtual").CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := ddlemu(context.Background(), t, dir, nil, "down", "two").CombinedOutput(); err != nil {
			t.Errorf("%v:\n%s", err, out)
		}
	})
	jobs := func(names ...string) (traces []string) {
		barrier, base := t.TempDir(), t.TempDir()
		var running []*exec.Cmd
		var outputs []*strings.Builder
		for _, name := range names {
			traces = append(traces, filepath.Join(base, name))
			cmd := ddlemu(t.Context(), t, dir, []string{"JOBS_DIR=" + barrier}, "run", "--fabric", "two", "--soft-cuda",
				"--nccl", "2.29", "--trace", traces[len(traces)-1], "--", bin, "job")
			out := &strings.Builder{}
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			running, outputs = append(running, cmd), append(outputs, out)
		}
		startTogether(t, barrier, 2*len(names))
		for i, cmd := range running {
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v:\n%s", err, outputs[i])
			}
		}
		return traces
	}
	both, alone := jobs("a", "b"), jobs("a")
	got := whyOf(t, both...)
	if len(got.Notes) != 0 {
		t.Errorf("notes %q", got.Notes)
	}
	behind := 0.0
	for _, c := range got.Calls {
		for _, p := range c.Causes {
			if p.Cause == "queueing" && strings.HasPrefix(p.Behind, "job ") &&
				strings.HasSuffix(p.Behind, "'s AllReduce") && strings.Contains(p.Link, "spine0") {
				behind += float64(p.Ns)
			}
		}
	}
	if whole := got.share(func(string, string, string) bool { return true }); whole < 0.999 || behind == 0 {
		t.Fatalf("%.0f ns behind the other job, %.1f %% explained", behind, 100*whole)
	}
	predicted, is := whatIfOf(t, append(both, "--without-job", "b")...),
		whatIfOf(t, append(alone, "--link", "*", "--bw", "1x")...)
	p, r := predicted.Changes[0].Functions[1], is.Changes[0].Functions[1]
	if p.Function != "AllReduce" || r.Function != "AllReduce" || p.Calls != r.Calls {
		t.Fatalf("%+v\n%+v", predicted, is)
	}
	t.Logf(
		"60 AllReduces: %.0f ns with the other job, %.0f ns without it by the model, %.0f ns alone; %.0f ns of all causes are behind the other job", p.Before, p.After, r.Before, behind)
	if off := math.Abs(p.After/r.Before - 1); off > 0.03 {
		t.Errorf("without the other job %.0f ns, alone %.0f ns: %.1f %%", p.After, r.Before, 100*off)
	}
	if p.Before < 1.2*p.After {
		t.Errorf("the other job made no difference: %.0f ns with it, %.0f ns without", p.Before, p.After)
	}
}
