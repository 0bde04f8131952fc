// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// README's two commands work on a machine that has only what README asks for: a new root of this machine's Debian,
// with the packages that README's text names, and with Go. There `make demo` builds everything and is VALID, and part
// of `make test` passes: tests of the fast lane that can start programs, the installation of the list, and tests that
// start programs of the list.
func TestReadmeOnANewMachine(t *testing.T) {
	t.Parallel()
	needs.Root(t, "a root folder with mounts in it")
	project := filepath.Dir(built.Path(t))
	packages, err := needs.Readme(project)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "bash",
		"testdata/machine.sh", newRoot(t, packages...), project}
	for _, folder := range []string{"GOROOT", "GOMODCACHE", "GOCACHE"} {
		out, err := exec.Command("go", "env", folder).Output()
		if err != nil {
			t.Fatalf("go env %s: %v", folder, err)
		}
		args = append(args, strings.TrimSpace(string(out)))
	}
	out, err := exec.CommandContext(t.Context(), "unshare", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var steps []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "+ ") || strings.HasPrefix(line, "took ") {
			steps = append(steps, strings.TrimSpace(line))
		}
	}
	t.Log(strings.Join(steps, "\n"))
	if !strings.Contains(string(out), "\nverdict: VALID\n") {
		t.Errorf("make demo is not VALID:\n%s", out)
	}
}
