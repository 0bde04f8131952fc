// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"context"
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
	"github.com/ddlemu/ddlemu/test/world"
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

// user runs commands on fabrics of its own.
type user struct{ *world.World }

// newUser skips the test without root. When the test ends, all fabrics are taken down and nothing may remain.
func newUser(t *testing.T) *user {
	t.Helper()
	needs.Root(t, "the kernel datapath")
	w := &user{world.New(t)}
	w.Program = ddlemu
	t.Cleanup(func() {
		w.try("down", "--all")
		w.try("gc")
		w.checkRemoved()
	})
	return w
}

// command returns a ddlemu command with these arguments. The program behind "--", if there is one, must be installed.
func (w *user) command(args ...string) *exec.Cmd {
	w.Helper()
	if i := slices.Index(args, "--"); i >= 0 && !strings.Contains(args[i+1], "/") {
		needs.Program(w, args[i+1])
	}
	cmd := w.Command(context.Background(), args...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "SUDO_UID=") })
	return cmd
}

// try runs ddlemu and returns its output and its exit status.
func (w *user) try(args ...string) (out string, status int) {
	w.Helper()
	o := world.Finish(w, w.command(args...))
	return o.Text(), o.Exit
}

// run runs ddlemu, which must succeed, and returns its output.
func (w *user) run(args ...string) string {
	w.Helper()
	out, status := w.try(args...)
	if status != 0 {
		w.Fatalf("ddlemu %s: exit status %d\n%s", strings.Join(args, " "), status, out)
	}
	return out
}

// up brings up a fabric of the kernel datapath.
func (w *user) up(args ...string) string {
	w.Helper()
	return w.run(append([]string{"up", "--datapath", "kernel", "--no-measure"}, args...)...)
}

// subnet returns the subnet of a fabric.
func (w *user) subnet(fabric string) netip.Prefix {
	w.Helper()
	dir, err := state.OpenDir(w.Dir, os.Getuid(), false)
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
func (w *user) namespaces() []string {
	w.Helper()
	all, err := netns.List(netns.DirPrefix(w.Dir))
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// remains returns what exists of the world's fabrics: files, namespaces and daemons.
func (w *user) remains() []string {
	w.Helper()
	all := w.namespaces()
	files, err := os.ReadDir(w.Dir)
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
func (w *user) daemons() []int {
	w.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.Fatal(err)
	}
	var pids []int
	for _, path := range lines {
		text, err := os.ReadFile(path)
		args := strings.Split(string(text), "\x00")
		if err != nil || !slices.Contains(args, w.Dir) || !slices.Contains(args, "daemon") {
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
func (w *user) checkRemoved() {
	w.Helper()
	var remains []string
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if remains = w.remains(); len(remains) == 0 {
			return
		}
	}
	w.Errorf("not removed: %v", remains)
}
