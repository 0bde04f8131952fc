// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// timeout is how long a command may run.
const timeout = 90 * time.Second

// user is a private folder of fabrics, and a working folder.
type user struct {
	*testing.T
	dir, work string
	path      string // PATH
}

// newUser skips the test without root or without one of the programs. When the test ends, newUser takes all fabrics
// down and checks that no namespace remains.
func newUser(t *testing.T, programs ...string) *user {
	t.Helper()
	needs.Root(t, "the kernel datapath")
	for _, program := range programs {
		needs.Optional(t, program)
	}
	bin := world.Absolute(t, "..", "..", "build", "bin")
	if _, err := os.Stat(filepath.Join(bin, "ddlemu")); err != nil {
		t.Fatalf("%v: run `make build` first", err)
	}
	w := &user{T: t, dir: filepath.Join(t.TempDir(), "fabrics"), work: t.TempDir(), path: bin + ":" + os.Getenv("PATH")}
	t.Cleanup(func() {
		w.try("ddlemu", "down", "--all")
		w.try("ddlemu", "gc")
		remaining, err := netns.List(netns.DirPrefix(w.dir))
		if err != nil || len(remaining) > 0 {
			t.Errorf("not removed: %v, %v", remaining, err)
		}
	})
	return w
}

// try runs a command in the working folder.
func (w *user) try(args ...string) world.Outcome {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	// sh finds the command on the world's PATH.
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `exec "$@"`, "sh"}, args...)...)
	cmd.Dir = w.work
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DDLEMU_") || strings.HasPrefix(v, "SUDO_UID=") || strings.HasPrefix(v, "PATH=")
	}), "DDLEMU_DIR="+w.dir, "PATH="+w.path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	o := world.Finish(w, cmd)
	if ctx.Err() != nil {
		w.Fatalf("%v did not end in time\n%s", args, o.Text())
	}
	return o
}

// run runs a command, which must succeed.
func (w *user) run(args ...string) world.Outcome {
	w.Helper()
	o := w.try(args...)
	if o.Exit != 0 {
		w.Fatalf("%s: exit status %d\n%s%s", strings.Join(args, " "), o.Exit, o.Stdout, o.Stderr)
	}
	return o
}

// shell runs a command line of the documentation, which must succeed.
func (w *user) shell(line string) world.Outcome {
	w.Helper()
	return w.run("sh", "-c", line)
}

// documented checks that README.md and docs/kernel.md contain a command line.
func (w *user) documented(line string) {
	w.Helper()
	for _, name := range []string{"README.md", "docs/kernel.md"} {
		text, err := os.ReadFile(world.Absolute(w.T, "..", "..", name))
		if err != nil {
			w.Fatal(err)
		}
		if !strings.Contains(string(text), line) {
			w.Errorf("%s does not have the line %s", name, line)
		}
	}
}

// copy copies a file of testdata to the working folder.
func (w *user) copy(name string) {
	w.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = os.WriteFile(filepath.Join(w.work, name), b, 0o644)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// near reports whether got is between low and high times want.
func near(got, want, low, high float64) bool { return got >= low*want && got <= high*want }
