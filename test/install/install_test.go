// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// The package is installed, used and removed in a new root of this machine's Debian.
func TestPackageInACleanRoot(t *testing.T) {
	needs.Root(t, "a root folder with mounts in it")
	packages, err := filepath.Glob(filepath.Join(built.Path(t, "dist"), "*.deb"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %q, %v: run `make dist`", packages, err)
	}
	root := newRoot(t, "python3")
	script, err := filepath.Abs("testdata/clean.sh")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "--mount", "--propagation", "private", "bash", script, root,
		packages[0]).CombinedOutput()
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
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// newRoot makes a root folder with a Debian of this machine's release and some packages, from this machine's sources
// of packages.
func newRoot(t *testing.T, packages ...string) string {
	t.Helper()
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		t.Fatal(err)
	}
	codename := regexp.MustCompile(`(?m)^VERSION_CODENAME=(\w+)$`).FindSubmatch(release)
	if codename == nil || !strings.Contains(string(release), "ID=debian") {
		t.Skip("SKIPPED: this machine has no Debian whose packages the root could have")
	}
	var sources []string
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list",
		"/etc/apt/sources.list.d/debian.sources"} {
		found, _ := filepath.Glob(pattern) // the only error is a malformed pattern
		sources = append(sources, found...)
	}
	root := filepath.Join(t.TempDir(), "root")
	// What mmdebstrap mounts in the root is gone with its namespace, also if it is killed.
	args := append([]string{"--mount", "--propagation", "private", needs.Program(t, "mmdebstrap"), "--variant=minbase",
		"--include=" + strings.Join(packages, ","), string(codename[1]), root}, sources...)
	if out, err := exec.Command("unshare", args...).CombinedOutput(); err != nil {
		t.Fatalf("unshare %q: %v\n%s", args, err, out)
	}
	return root
}
