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

// The project of docs/ci.md builds and passes as the page says, with what the Debian packages have.
func TestPageOfCI(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/ci.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of shell in the page, not 1", len(blocks))
	}
	program, err := os.ReadFile("testdata/allreduce.cc")
	if err != nil {
		t.Fatal(err)
	}
	project := t.TempDir()
	for name, text := range map[string][]byte{"job.cc": program, "network-test.sh": []byte(blocks[0][1])} {
		if err := os.WriteFile(filepath.Join(project, name), text, 0o644); err != nil {
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

// installed is the folder /usr of a root in which the Debian packages are unpacked.
func installed(t *testing.T) string {
	t.Helper()
	packages, err := filepath.Glob(filepath.Join(built.Path(t, "dist"), "*.deb"))
	if err != nil || len(packages) != 2 {
		t.Fatalf("packages %q, %v: run `make dist`", packages, err)
	}
	root := t.TempDir()
	for _, p := range packages {
		if out, err := exec.Command("dpkg-deb", "--extract", p, root).CombinedOutput(); err != nil {
			t.Fatalf("unpack %s: %v\n%s", p, err, out)
		}
	}
	return filepath.Join(root, "usr")
}
