// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A log folder is left after its run has ended, not before. A folder with other files is not a log folder.
func TestLogsOfKilledRuns(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, lock, err := makeLogDir()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	killed, left, err := makeLogDir()
	if err != nil {
		t.Fatal(err)
	}
	left.Close()
	if err := os.WriteFile(killed+"/rank0.log", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(os.TempDir(), logPrefix+"results")
	if err := os.MkdirAll(filepath.Join(other, "table"), 0o700); err != nil {
		t.Fatal(err)
	}
	logs, err := LeftLogs()
	if err != nil || !slices.Equal(logs, []string{killed}) {
		t.Errorf("left are %v, %v; want %s", logs, err, killed)
	}
}
