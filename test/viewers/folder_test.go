// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Each command that reads a folder of ledgers reads that of each command that writes one.
func TestAllReadersReadAllFolders(t *testing.T) {
	dir := t.TempDir()
	load := filepath.Join(dir, "load.jsonl")
	ddlemu(t, "workload", "make", "ddp", "--model", "resnet50", "--ranks", "2", "--compute", "10ms", "-o", load)
	folders := map[string]string{"bench": filepath.Join(dir, "bench"), "replay": filepath.Join(dir, "replay")}
	ddlemu(t, "bench", "allreduce", "--profile", "eth10", "--ranks", "2", "-b", "1M", "-e", "1M", "-n", "3", "--trace",
		folders["bench"])
	ddlemu(t, "replay", load, "--profile", "eth10", "--nodes", "2", "--trace", folders["replay"])
	for by, folder := range folders {
		t.Run(by, func(t *testing.T) {
			for _, args := range [][]string{
				{"report", folder, "-o", by + ".html"}, {"trace", folder, "-o", by + ".json"},
				{"capture", folder, "-o", by + ".pcapng"},
				{"record", "--from", folder, "-o", by + ".jsonl"}, {"why", folder}, {"whatif", folder, "--lat", "1ms"},
				{"messages", folder},
				{"pending", folder}, {"metrics", folder}, {"diff", folder, folder},
			} {
				if i := slices.Index(args, "-o"); i > 0 {
					args[i+1] = filepath.Join(dir, args[0]+args[i+1])
				}
				ddlemu(t, args...)
				if i := slices.Index(args, "-o"); i > 0 {
					if info, err := os.Stat(args[i+1]); err != nil || info.Size() == 0 {
						t.Errorf("%v: nothing is written: %v", args, err)
					}
				}
			}
			var outcome struct{ Verdict string }
			d := figures(t, folder)
			if len(d.Outcomes) != 1 {
				t.Fatalf("the report has the outcomes %v", d.Outcomes)
			}
			if err := json.Unmarshal(d.Outcomes[0].Result, &outcome); err != nil || outcome.Verdict != "VALID" {
				t.Errorf("the outcome is %s (%v)", d.Outcomes[0].Result, err)
			}
		})
	}
}
