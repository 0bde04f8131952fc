// SPDX-License-Identifier: Apache-2.0

package python

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// limit is the longest time of a script, which usually takes a few seconds.
const limit = 90 * time.Second

// outcome is how a script ended and what it printed.
type outcome struct {
	stdout, stderr string
	exit           int
	signal         syscall.Signal
}

// jobs numbers the scripts: each is a job.
var jobs atomic.Int64

// run runs a script of testdata as rank 0 of a job of two, with env added to a small environment
// and a new folder of fabrics.
func run(t *testing.T, dir string, env []string, script string, args ...string) outcome {
	t.Helper()
	python := needs.Program(t, "python3")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{absolute(t, "testdata", script)}, args...)...)
	cmd.Dir = t.TempDir() // a core dump would go here
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "PYTHONDONTWRITEBYTECODE=1", "GOEMU=" + built.Path(t, "lib", "libgoemu.so"), "DDLEMU_DIR=" + dir, "DDLEMU_PROFILE=eth10",
		"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + strconv.FormatInt(jobs.Add(1), 10),
	}, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	// Processes that a failed script left. No other process is in its group.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	if ctx.Err() != nil {
		t.Fatalf("%s %v hangs\n%s%s", script, args, stdout.String(), stderr.String())
	}
	o := outcome{stdout: stdout.String(), stderr: stderr.String(), exit: cmd.ProcessState.ExitCode()}
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); s.Signaled() {
		o.signal = s.Signal()
	}
	if strings.Contains(o.stderr, "goroutine ") {
		t.Fatalf("%s %v: Go crashed:\n%s", script, args, o.stderr)
	}
	return o
}

// good runs a script that must succeed. The plugin must print the fabric at the start of the job
// and the verdict at its end, each once.
func good(t *testing.T, env []string, script string, args ...string) outcome {
	t.Helper()
	o := run(t, folder(t), env, script, args...)
	if o.exit != 0 || o.stdout != "ok\n" {
		t.Fatalf("exit status %d, signal %v, it printed %q and\n%s", o.exit, o.signal, o.stdout, o.stderr)
	}
	for _, once := range []string{"ddlemu: fabric ", "ddlemu: verdict on fabric "} {
		if n := strings.Count(o.stderr, once); n != 1 {
			t.Errorf("%q was printed %d times, not once:\n%s", once, n, o.stderr)
		}
	}
	if strings.Contains(o.stderr, "rank 0 died") || strings.Contains(o.stderr, "NOT be emulated") {
		t.Errorf("the script reported an error:\n%s", o.stderr)
	}
	return o
}

func absolute(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// folder makes a folder of fabrics for one script. It must be empty at the end.
func folder(t *testing.T) string {
	t.Helper()
	dir := scratch(t)
	t.Cleanup(func() {
		left, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		if len(left) > 0 && !t.Failed() {
			t.Errorf("files remain: %v", left)
		}
	})
	return dir
}

// scratch makes a folder of fabrics for a script that dies and leaves files.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ddlemu-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// The plugin works in Python: properties, and messages of all lengths.
func TestJob(t *testing.T) {
	t.Parallel()
	good(t, nil, "job.py")
}
