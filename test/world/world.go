// SPDX-License-Identifier: Apache-2.0

// Package world runs the programs of tests as a user would: the ddlemu of build/, with a folder of fabrics of its own,
// in an environment without variables of NCCL and ddlemu. It checks that nothing remains. It is for packages directly
// under test/.
package world

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
)

// limit is the longest time of a command that has no other.
const limit = 3 * time.Minute

// Absolute is the absolute path of a file, from the folder of the test's package.
func Absolute(t testing.TB, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Folder makes a folder of fabrics. It must be empty at the end of the test, unless the test has failed.
func Folder(t testing.TB) string {
	t.Helper()
	dir := Scratch(t)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if (err != nil && !os.IsNotExist(err) || len(left) > 0) && !t.Failed() {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return dir
}

// Scratch makes a folder of fabrics for processes that die and leave files. It is removed at the end of the test.
func Scratch(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ddlemu-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Command is a ddlemu command with its fabrics in dir and more variables in its environment.
func Command(ctx context.Context, t testing.TB, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(ctx, built.Path(t, "bin", "ddlemu"), args...)
	cmd.Env = append(append(built.Environ(), "DDLEMU_DIR="+dir), env...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Outcome is what a command printed and how it ended.
type Outcome struct {
	Stdout, Stderr string
	Exit           int            // -1 after a signal
	Signal         syscall.Signal // 0 if none ended it
}

// Text is all that the command printed.
func (o Outcome) Text() string { return o.Stdout + o.Stderr }

// Finish runs a command in a process group of its own, and kills what it leaves there. A command that cannot be started
// ends the test.
func Finish(t testing.TB, cmd *exec.Cmd) Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 5*time.Second
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // no other process is in its group
	o := Outcome{Stdout: stdout.String(), Stderr: stderr.String(), Exit: cmd.ProcessState.ExitCode()}
	if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		o.Signal = s.Signal()
	}
	return o
}

// World is a folder of fabrics, and the commands of a user on them.
type World struct {
	*testing.T
	Dir     string   // of the fabrics
	Program string   // the ddlemu command
	Env     []string // more variables of the commands
}

// New makes a world. At the end of the test its fabrics are taken down, and then its folder must be empty.
func New(t *testing.T) *World {
	t.Helper()
	w := &World{T: t, Dir: Folder(t), Program: built.Path(t, "bin", "ddlemu")}
	t.Cleanup(func() {
		w.Env = nil // the test may have planted a fault
		if o := w.Try("down", "--all"); o.Exit != 0 && !t.Failed() {
			t.Errorf("take the fabrics down: exit status %d: %s", o.Exit, o.Text())
		}
	})
	return w
}

// Command is a ddlemu command with these arguments.
func (w *World) Command(ctx context.Context, args ...string) *exec.Cmd {
	w.Helper()
	cmd := Command(ctx, w, w.Dir, w.Env, args...)
	cmd.Path, cmd.Args[0] = w.Program, w.Program
	return cmd
}

// Try runs ddlemu for three minutes at most. It also works at the end of the test.
func (w *World) Try(args ...string) Outcome {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), limit)
	defer cancel()
	o := Finish(w, w.Command(ctx, args...))
	if ctx.Err() != nil {
		w.Fatalf("ddlemu %s did not end in %v:\n%s", strings.Join(args, " "), limit, o.Text())
	}
	return o
}

// Run runs ddlemu, which must succeed, and returns all that it printed.
func (w *World) Run(args ...string) string {
	w.Helper()
	o := w.Try(args...)
	if o.Exit != 0 {
		w.Fatalf("ddlemu %s: exit status %d\n%s", strings.Join(args, " "), o.Exit, o.Text())
	}
	return o.Text()
}
