// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/test/needs"
)

var ddlemu string // path of the command under test

func TestMain(m *testing.M) {
	os.Exit(withCommand(m))
}

func withCommand(m *testing.M) int {
	dir, err := os.MkdirTemp("", "ddlemu-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ddlemu = filepath.Join(dir, "ddlemu")
	build := exec.Command("go", "build", "-o", ddlemu, "../../cmd/ddlemu")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build ddlemu: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// world is a private folder of fabrics.
type world struct {
	*testing.T
	dir string
}

// newWorld skips the test without root. When the test ends, it takes all fabrics down and checks that nothing remains.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: network namespaces need root")
	}
	w := &world{T: t, dir: filepath.Join(t.TempDir(), "fabrics")}
	t.Cleanup(func() {
		w.try("down", "--all")
		w.try("gc")
		w.checkRemoved()
	})
	return w
}

// command returns a ddlemu command with these arguments. The program behind "--", if there is one, must be installed.
func (w *world) command(args ...string) *exec.Cmd {
	w.Helper()
	if i := slices.Index(args, "--"); i >= 0 && !strings.Contains(args[i+1], "/") {
		needs.Program(w, args[i+1])
	}
	cmd := exec.Command(ddlemu, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DDLEMU_") || strings.HasPrefix(v, "SUDO_UID=")
	}), "DDLEMU_DIR="+w.dir)
	return cmd
}

// try runs ddlemu and returns its output and its exit status.
func (w *world) try(args ...string) (out string, status int) {
	w.Helper()
	var b bytes.Buffer
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	if cmd.ProcessState == nil {
		w.Fatalf("ddlemu %v: %v", args, err)
	}
	return b.String(), cmd.ProcessState.ExitCode()
}

// run runs ddlemu, which must succeed, and returns its output.
func (w *world) run(args ...string) string {
	w.Helper()
	out, status := w.try(args...)
	if status != 0 {
		w.Fatalf("ddlemu %s: exit status %d\n%s", strings.Join(args, " "), status, out)
	}
	return out
}

// up brings up a fabric of the kernel datapath.
func (w *world) up(args ...string) string {
	w.Helper()
	return w.run(append([]string{"up", "--datapath", "kernel", "--no-measure"}, args...)...)
}

// subnet returns the subnet of a fabric.
func (w *world) subnet(fabric string) netip.Prefix {
	w.Helper()
	dir, err := state.OpenDir(w.dir, os.Getuid(), false)
	if err != nil {
		w.Fatal(err)
	}
	defer dir.Close()
	file, err := dir.Open(fabric)
	if err != nil {
		w.Fatal(err)
	}
	defer file.Close()
	fab, err := fabricfile.Read(file)
	if err != nil {
		w.Fatal(err)
	}
	return netip.MustParsePrefix(fab.Config.Subnet)
}

// namespaces returns the namespaces of the world's fabrics, of switches and of nodes.
func (w *world) namespaces() []string {
	w.Helper()
	all, err := netns.List(netns.DirPrefix(w.dir))
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// remains returns what exists of the world's fabrics: files, namespaces and daemons.
func (w *world) remains() []string {
	w.Helper()
	all := w.namespaces()
	files, err := os.ReadDir(w.dir)
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	for _, f := range files {
		all = append(all, f.Name())
	}
	for _, pid := range w.daemons() {
		all = append(all, fmt.Sprintf("process %d", pid))
	}
	return all
}

// daemons returns the process IDs of the world's daemons.
func (w *world) daemons() []int {
	w.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.Fatal(err)
	}
	var pids []int
	for _, path := range lines {
		text, err := os.ReadFile(path)
		args := strings.Split(string(text), "\x00")
		if err != nil || !slices.Contains(args, w.dir) || !slices.Contains(args, "daemon") {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// checkRemoved fails the test if anything of the world's fabrics remains after 5 s. A daemon ends a moment after it has
// removed its fabric.
func (w *world) checkRemoved() {
	w.Helper()
	var remains []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if remains = w.remains(); len(remains) == 0 {
			return
		}
	}
	w.Errorf("not removed: %v", remains)
}
