// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// packed is the file of `make dist` whose name matches a pattern.
func packed(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(built.Path(t, "dist"), pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("files %q, %v: run `make dist`", found, err)
	}
	return found[0]
}

// The packages are installed, used and removed in a new root of this machine's Debian without a compiler. There each
// way of docs/install.md gives a table in its three commands or fewer, and in two minutes at most.
func TestPackagesInACleanRoot(t *testing.T) {
	t.Parallel()
	needs.Root(t, "a root folder with mounts in it")
	files := []string{
		packed(t, "ddlemu_*.deb"), packed(t, "ddlemu-softcuda_*.deb"), packed(t, "ddlemu-*.tar.gz"), wheel(t),
	}
	root := newRoot(t, "python3-venv")
	script, err := filepath.Abs("testdata/clean.sh")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--mount", "--propagation", "private", "bash", script, root}, files...)
	cmd := exec.CommandContext(t.Context(), "unshare", args...)
	cmd.Stdin = strings.NewReader(strings.Join(waysToATable(t), "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, words := range []string{
		"NCCL net API: *v6 to v12", "(ok|warn) +cores: ", "No NCCL runs here", "fabric leaf-spine is up",
		"fabric eth10 is up", "node0 +node1 +10Gbps", "the plugin has ncclNetPlugin_v12", "nothing is left",
	} {
		if !regexp.MustCompile(words).Match(out) {
			t.Errorf("it does not print %q", words)
		}
	}
	took := regexp.MustCompile(`(?m)^took \d+ s, processors (\d+) s and (\d+) s: .*$`).FindAllStringSubmatch(string(out), -1)
	if len(took) != 3 {
		t.Errorf("%d ways to a table, not 3", len(took))
	}
	for _, way := range took {
		t.Log(way[0])
		// Two minutes are promised. Other tests run beside this one, so that is held against the time of processors.
		user, userErr := time.ParseDuration(way[1] + "s")
		system, systemErr := time.ParseDuration(way[2] + "s")
		if userErr != nil || systemErr != nil || user+system > 2*time.Minute {
			t.Errorf("%s (%v, %v)", way[0], userErr, systemErr)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}
