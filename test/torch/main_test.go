// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
)

// limit is the longest time of a job. Each program ends itself before that, and prints where it hangs.
const limit = 3 * time.Minute

// pythonEnv lists interpreters that have PyTorch, separated by colons. By default it is the first of python3 on PATH and
// /usr/bin/python3 that has it.
const pythonEnv = "DDLEMU_TEST_TORCH_PYTHON"

// pythons returns the interpreters to test with. The test is skipped if there is none.
func pythons(t *testing.T) []string {
	t.Helper()
	if list := os.Getenv(pythonEnv); list != "" {
		return strings.Split(list, ":")
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import torch.distributed").Run() == nil {
			return []string{python}
		}
	}
	t.Skipf("SKIPPED: no PyTorch (apt-get install python3-torch, or set %s)", pythonEnv)
	return nil
}

// job is a job on an emulated fabric of two nodes.
type job struct {
	python string
	ranks  int
	flags  []string // of ddlemu run
	env    []string
	unset  string // variable that the ranks do not get
	// The job has a library of its own in env.
	ownLibrary bool
}

// outcome is what a job printed and how it ended.
type outcome struct {
	stdout, stderr string
	exit           int
}

// run runs a program of testdata on each rank.
func (j job) run(t *testing.T, program string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	flags := append([]string{"run", "--profile", "loopback", "--nodes", "2"}, j.flags...)
	if version := os.Getenv("DDLEMU_TEST_NCCL"); version != "" && !j.ownLibrary {
		flags = append(flags, "--nccl", version)
	}
	command := []string{j.python, absolute(t, "launch.py"), strconv.Itoa(max(2, j.ranks)), absolute(t, program)}
	if j.unset != "" {
		command = append([]string{"env", "--unset=" + j.unset}, command...)
	}
	cmd := exec.CommandContext(ctx, built.Path(t, "bin", "ddlemu"), slices.Concat(flags, []string{"--"}, command, args)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(environment(t), j.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a failed job left
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// good runs a program that must succeed on all ranks.
func (j job) good(t *testing.T, program string, args ...string) outcome {
	t.Helper()
	o := j.run(t, program, args...)
	if o.exit != 0 {
		t.Fatalf("exit status %d\n%s%s", o.exit, o.stdout, o.stderr)
	}
	if strings.Contains(o.stderr, "Traceback") || strings.Contains(o.stderr, "Exception ignored") {
		t.Errorf("an error was printed:\n%s", o.stderr)
	}
	return o
}

// environment is that of the machine without ddlemu's variables. `ddlemu run` adds the package and the library.
func environment(t *testing.T) []string {
	t.Helper()
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "DDLEMU_") || strings.HasPrefix(v, "RANK=") || strings.HasPrefix(v, "WORLD_SIZE=")
	})
	readPrograms(t, built.Path(t, "torch"), "testdata")
	return append(env, "DDLEMU_DIR="+filepath.Join(t.TempDir(), "fabrics"), "DDLEMU="+built.Path(t, "bin", "ddlemu"),
		"OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
}

// readPrograms reads all files of the folders. Go then knows that the test depends on them, and does not take an earlier
// result from its cache when one has changed.
func readPrograms(t *testing.T, folders ...string) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				_, err = os.ReadFile(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// each runs a test with each interpreter.
func each(t *testing.T, test func(t *testing.T, python string)) {
	t.Helper()
	for _, python := range pythons(t) {
		t.Run(strings.ReplaceAll(strings.Trim(python, "/"), "/", "-"), func(t *testing.T) { test(t, python) })
	}
}
