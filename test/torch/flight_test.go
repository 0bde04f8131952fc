// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

// PyTorch's flight recorder records the backend, and `ddlemu pending` says of its dumps which rank has not made a
// call. This needs PyTorch 2.15.
func TestFlightRecorder(t *testing.T) {
	for _, python := range pythons(t) {
		dir := t.TempDir()
		o := job{python: python}.run(t, "flight.py", dir)
		if strings.Contains(o.Stdout, "no recorder") {
			if o.Exit != 3 { // no rank took part
				t.Fatalf("exit status %d, want 3\n%s%s", o.Exit, o.Stdout, o.Stderr)
			}
			t.Skipf("%s: its PyTorch records only NCCL and gloo", python)
		}
		if o.Exit != 0 {
			t.Fatalf("exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
		}
		o = start(t, []string{built.Path(t, "bin", "ddlemu"), "pending", filepath.Join(dir, "nccl_trace_rank_0"),
			filepath.Join(dir, "nccl_trace_rank_1")})
		for _, want := range []string{
			"all_reduce #2 of group 0 (default_pg), ranks 0-1, Float [128]: called by rank 0 (flight.py:",
			"\n  not called by rank 1\n",
			"\nrank 1: its last call is all_reduce #1 of group 0 (default_pg)",
		} {
			if !strings.Contains(o.Stdout, want) {
				t.Errorf("%q is not in\n%s%s", want, o.Stdout, o.Stderr)
			}
		}
	}
}
