// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ddlemu/ddlemu/test/needs"
)

// shared is a folder for what several tests use.
var shared string

func TestMain(m *testing.M) {
	var err error
	if shared, err = os.MkdirTemp("", "install-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := m.Run()
	os.RemoveAll(shared)
	os.Exit(status)
}

// codename is the release of this machine's Debian, such as bookworm; "" if it has another system.
func codename() (string, error) {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	name := regexp.MustCompile(`(?m)^VERSION_CODENAME=(\w+)$`).FindSubmatch(release)
	if name == nil || !strings.Contains(string(release), "ID=debian") {
		return "", nil
	}
	return string(name[1]), nil
}

// base makes a root folder with a minimal Debian of a release, from this machine's sources of packages, and returns it.
func base(mmdebstrap, release string) (string, error) {
	var sources []string
	for _, pattern := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list",
		"/etc/apt/sources.list.d/debian.sources"} {
		found, _ := filepath.Glob(pattern) // the only error is a malformed pattern
		sources = append(sources, found...)
	}
	root := filepath.Join(shared, "base")
	// What mmdebstrap mounts in the root is gone with its namespace, also if it is killed. The root is not kept, so
	// nothing waits for the disk.
	args := append([]string{"--mount", "--propagation", "private", mmdebstrap, "--variant=minbase",
		"--dpkgopt=force-unsafe-io", "--skip=cleanup/apt/lists", release, root}, sources...)
	if out, err := exec.Command("unshare", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unshare %q: %w\n%s", args, err, out)
	}
	return root, nil
}

var (
	baseOnce sync.Once
	baseRoot string
	baseErr  error
)

// newRoot makes a root folder with a Debian of this machine's release and some packages. The minimal Debian in it is
// made once for all tests.
func newRoot(t *testing.T, packages ...string) string {
	t.Helper()
	release, err := codename()
	if err != nil {
		t.Fatal(err)
	}
	if release == "" {
		t.Skip("SKIPPED: this machine has no Debian whose packages the root could have")
	}
	program := needs.Program(t, "mmdebstrap")
	baseOnce.Do(func() { baseRoot, baseErr = base(program, release) })
	if baseErr != nil {
		t.Fatal(baseErr)
	}
	root := filepath.Join(t.TempDir(), "root")
	if out, err := exec.Command("cp", "-a", baseRoot, root).CombinedOutput(); err != nil {
		t.Fatalf("copy the root: %v\n%s", err, out)
	}
	args := append([]string{"--mount", "--propagation", "private", "bash", "testdata/add.sh", root}, packages...)
	if out, err := exec.CommandContext(t.Context(), "unshare", args...).CombinedOutput(); err != nil {
		t.Fatalf("add %q to the root: %v\n%s", packages, err, out)
	}
	return root
}
