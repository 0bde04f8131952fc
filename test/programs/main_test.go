// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// timeout is how long a command may run.
const timeout = 90 * time.Second

// user runs any commands on fabrics of its own, in a working folder.
type user struct {
	*world.World
	work string
	path string // PATH
}

// newUser skips the test without root or without one of the programs.
func newUser(t *testing.T, programs ...string) *user {
	t.Helper()
	w := &user{World: world.NewKernel(t), work: t.TempDir()}
	w.path = filepath.Dir(w.Program) + ":" + os.Getenv("PATH")
	for _, program := range programs {
		needs.Optional(t, program)
	}
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
	cmd.Env = append(built.Environ(), "DDLEMU_DIR="+w.Dir, "PATH="+w.path)
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

// documented checks that docs/jobs.md and docs/kernel.md contain a command line.
func (w *user) documented(line string) {
	w.Helper()
	for _, name := range []string{"docs/jobs.md", "docs/kernel.md"} {
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
