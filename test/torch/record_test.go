// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/recorded"
)

// A DDP job with two ranks on each node is recorded and played again: each call of each rank begins and ends when it
// did, to the nanosecond.
func TestRecordedJob(t *testing.T) {
	python := pythons(t)[0]
	for _, version := range []string{"2.22", "2.29"} {
		on := []string{"--profile", "ndr400", "--set", "link.jitter=none", "--nodes", "2", "--nccl", version}
		dir := t.TempDir()
		trace, again, file := filepath.Join(dir, "trace"), filepath.Join(dir, "again"), filepath.Join(dir, "job.jsonl")
		flags := slices.Concat(virtual, on, []string{"--trace", trace})
		job{python: python, ranks: 4, ownLibrary: true, flags: flags}.good(t, "ddp.py", "ddlemu")
		ddlemu := built.Path(t, "bin", "ddlemu")
		for _, args := range [][]string{{"record", "--from", trace, "-o", file},
			append([]string{"replay", file, "--trace", again}, on...)} {
			if o := start(t, append([]string{ddlemu}, args...)); o.Exit != 0 {
				t.Fatalf("ddlemu %v: exit status %d\n%s%s", args, o.Exit, o.Stdout, o.Stderr)
			}
		}
		recorded.Compare(t, trace, again, 0)
	}
}
