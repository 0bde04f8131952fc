// SPDX-License-Identifier: Apache-2.0

package python

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// limit is the longest time of a script, which usually takes a few seconds.
const limit = 90 * time.Second

// jobs numbers the scripts: each is a job.
var jobs atomic.Int64

// run runs a script of testdata as rank 0 of a job of two, with env added to a small environment
// and a new folder of fabrics.
func run(t *testing.T, dir string, env []string, script string, args ...string) world.Outcome {
	t.Helper()
	python := needs.Program(t, "python3")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{world.Absolute(t, "testdata", script)}, args...)...)
	cmd.Dir = t.TempDir() // a core dump would go here
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "PYTHONDONTWRITEBYTECODE=1", "GOEMU=" +
			built.Path(t, "lib", "libgoemu.so"), "DDLEMU_DIR=" + dir, "DDLEMU_PROFILE=eth10",
		"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + strconv.FormatInt(jobs.Add(1), 10),
	}, env...)
	o := world.Finish(t, cmd)
	if ctx.Err() != nil {
		t.Fatalf("%s %v hangs\n%s", script, args, o.Text())
	}
	if strings.Contains(o.Stderr, "goroutine ") {
		t.Fatalf("%s %v: Go crashed:\n%s", script, args, o.Stderr)
	}
	return o
}

// good runs a script that must succeed. The plugin must print the fabric at the start of the job
// and the verdict at its end, each once.
func good(t *testing.T, env []string, script string, args ...string) world.Outcome {
	t.Helper()
	o := run(t, world.Folder(t), env, script, args...)
	if o.Exit != 0 || o.Stdout != "ok\n" {
		t.Fatalf("exit status %d, signal %v, it printed %q and\n%s", o.Exit, o.Signal, o.Stdout, o.Stderr)
	}
	for _, once := range []string{"ddlemu: fabric ", "ddlemu: verdict on fabric "} {
		if n := strings.Count(o.Stderr, once); n != 1 {
			t.Errorf("%q was printed %d times, not once:\n%s", once, n, o.Stderr)
		}
	}
	if strings.Contains(o.Stderr, "rank 0 died") || strings.Contains(o.Stderr, "NOT be emulated") {
		t.Errorf("the script reported an error:\n%s", o.Stderr)
	}
	return o
}

// The plugin works in Python: properties, and messages of all lengths.
func TestJob(t *testing.T) {
	t.Parallel()
	good(t, nil, "job.py")
}
