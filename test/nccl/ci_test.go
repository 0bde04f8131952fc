// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
)

// The project of docs/ci.md builds and passes as the page says, on an installed ddlemu.
func TestPageOfCI(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```(cpp|sh)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of C++ and shell in the page, not 2", len(blocks))
	}
	project := t.TempDir()
	for _, b := range blocks {
		name := map[string]string{"cpp": "job.cc", "sh": "network-test.sh"}[b[1]]
		if err := os.WriteFile(filepath.Join(project, name), []byte(b[2]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "network-test.sh", installed(t))
	cmd.Dir = project
	cmd.Env = append(built.Environ(), "DDLEMU_DIR="+folder(t))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "verdict: VALID") != 2 ||
		!strings.Contains(string(out), "node1:node0") {
		t.Fatalf("%v:\n%s", err, out)
	}
	if report, err := os.ReadFile(filepath.Join(project, "bench.xml")); err != nil ||
		!strings.Contains(string(report), `tests="3" failures="0" errors="0" skipped="0"`) {
		t.Errorf("%v\n%s", err, report)
	}
}

// installed is a folder with what the build made, as after `make install`.
func installed(t *testing.T) string {
	t.Helper()
	prefix := t.TempDir()
	for name, target := range map[string]string{"bin": "bin", "lib/ddlemu/softcuda": "softcuda"} {
		path := filepath.Join(prefix, name)
		target, err := filepath.Abs(built.Path(t, target))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.Symlink(target, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return prefix
}
