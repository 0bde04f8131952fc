// SPDX-License-Identifier: Apache-2.0

package link

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// compileStopped builds testdata/stopped.c with the engine. It also reads the sources, so that their changes invalidate
// go test's cache.
func compileStopped(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stopped")
	args := []string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-o", program}
	for _, pattern := range []string{"*.[ch]", "testdata/*.c"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("find %s: %v", pattern, err)
		}
		for _, f := range files {
			if _, err := os.ReadFile(f); err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(f) == ".c" {
				args = append(args, f)
			}
		}
	}
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// A thread that is stopped while it reads parameters finds their block written again, and perhaps in force again. It
// uses those of one change, wherever it was stopped.
func TestAdvanceUsesTheParametersOfOneChange(t *testing.T) {
	program := compileStopped(t)
	for _, block := range []string{"free", "used"} {
		t.Run(block, func(t *testing.T) {
			out, err := exec.Command(program, block).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
