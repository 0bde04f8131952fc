// SPDX-License-Identifier: Apache-2.0

// Package gpu tests the scripts of this folder on a machine without a GPU. To run the scripts with PyTorch on real
// GPUs, see run.sh --help.
package gpu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/needs"
)

// withoutGPU skips the test on a machine with a GPU, because run.sh would run all cases.
func withoutGPU(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"/dev/nvidia[0-9]*", "/proc/driver/nvidia/gpus/*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			t.Skip("this machine has an NVIDIA GPU: run test/gpu/run.sh on it")
		}
	}
}

// script runs run.sh and returns its lines and its exit status.
func script(t *testing.T, args ...string) ([]string, int) {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"run.sh"}, args...)...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n"), cmd.ProcessState.ExitCode()
}

func TestWithoutGPU(t *testing.T) {
	withoutGPU(t)
	tests := []struct {
		name string
		args []string
		line string // pattern of all lines but the last
		last string
		code int
	}{
		{"skips", nil, `^SKIP [a-z0-9-]+: no NVIDIA GPU$`, `^0 passed, 0 failed, 13 skipped$`, 0},
		{"no python", []string{"--python", "/nonexistent/python3"}, `^SKIP [a-z0-9-]+: no NVIDIA GPU$`,
			`^0 passed, 0 failed, 13 skipped$`, 0},
		{"required", []string{"--require"}, `^FAIL [a-z0-9-]+: no NVIDIA GPU$`, `^0 passed, 13 failed, 0 skipped$`, 1},
		{"some", []string{"--only", "collectives-*"}, `^SKIP collectives-`, `^0 passed, 0 failed, 4 skipped$`, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines, code := script(t, tt.args...)
			if code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			last := len(lines) - 1
			if !regexp.MustCompile(tt.last).MatchString(lines[last]) {
				t.Errorf("last line %q, want %s", lines[last], tt.last)
			}
			for _, line := range lines[:last] {
				// If PyTorch is installed, the first line has its version.
				if !strings.HasPrefix(line, "PyTorch ") && !regexp.MustCompile(tt.line).MatchString(line) {
					t.Errorf("line %q, want %s", line, tt.line)
				}
			}
		})
	}
}

func TestLeavesNothing(t *testing.T) {
	withoutGPU(t)
	t.Setenv("TMPDIR", t.TempDir())
	before, _ := filepath.Glob("/dev/shm/ddlemu-gpu-*")
	script(t)
	after, _ := filepath.Glob("/dev/shm/ddlemu-gpu-*")
	if len(after) > len(before) {
		t.Errorf("in /dev/shm are %v, before %v", after, before)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("in the temporary folder are %v, %v", left, err)
	}
	if _, err := os.Stat("__pycache__"); err == nil {
		t.Error("compiled Python is left beside the scripts")
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"--nonsense"}, {"--timeout", "0"}, {"--timeout", "x"}, {"--backend", "mpi"},
		{"--build"}, {"--keep", "."}} {
		lines, code := script(t, args...)
		if code != 2 || len(lines) != 1 || !strings.HasPrefix(lines[0], "run.sh: ") {
			t.Errorf("%q: exit status %d, %q; want 2 and one line", args, code, lines)
		}
	}
}

// The Python scripts have tests in Python.
func TestScripts(t *testing.T) {
	cmd := exec.Command(needs.Program(t, "python3"), "-B", "scripts_test.py")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
