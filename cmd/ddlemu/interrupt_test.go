// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
)

// A command that is interrupted prints what was done, says that it is incomplete, and leaves no file.
func TestInterruptedReports(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("calls.csv", []byte("op,count,root\nallreduce,1000,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args    string
		reports bool
	}{
		{"schedule run allpairs --k 2 --gpus 4 --model --profile dgx-a100-nvlink -b 1M -e 4M -f 2 --json", true},
		{"schedule compare allpairs:k=2 ring --gpus 4 --profile dgx-a100-nvlink -b 1M -e 4M -f 2 --json", true},
		{"workload convert calls.csv --ranks 2 -o out.jsonl", false},
	} {
		ctx, stop := context.WithCancel(t.Context())
		stop()
		w := newWorld(t)
		if status := run(ctx, w.global(), strings.Fields(tc.args)); status != cli.ExitInterrupted {
			t.Errorf("%s: exit status %d: %s", tc.args, status, w.err.String())
		}
		var got struct {
			Rows    []any
			Verdict string
		}
		if err := json.Unmarshal(w.out.Bytes(), &got); tc.reports &&
			(err != nil || got.Verdict != "incomplete" || got.Rows == nil) {
			t.Errorf("%s: %v: %q", tc.args, err, w.out.String())
		}
		if text := w.err.String(); !strings.Contains(text, "interrupted") || strings.Contains(text, "canceled") {
			t.Errorf("%s: says %q", tc.args, text)
		}
		if left, err := os.ReadDir("."); err != nil || len(left) != 1 {
			t.Errorf("%s: left %v, %v", tc.args, left, err)
		}
	}
}
