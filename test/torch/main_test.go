// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// limit is the longest time of a job. Each program ends itself before that, and prints where it hangs: if it has
// printed nothing for that long.
const limit = 3 * time.Minute

// virtual are the flags of a virtual clock that waits for a thread which gets no core for long.
var virtual = []string{"--clock", "virtual", "--compute-hold", "1m"}

// aliasGloo has NCCL, over the emulated links, carry what a program asks gloo for.
const aliasGloo = "DDLEMU_TORCH_ALIAS=nccl,gloo"

// hangsBefore is how long before its limit a program of a job says that it hangs.
const hangsBefore = 10 * time.Second

// pythonEnv lists interpreters that have PyTorch, separated by colons. By default it is the first of python3 on PATH
// and /usr/bin/python3 that has it.
const pythonEnv = "DDLEMU_TEST_TORCH_PYTHON"

// findPythons looks for the interpreters to test with once: importing PyTorch takes a second.
var findPythons = sync.OnceValue(func() []string {
	if list := os.Getenv(pythonEnv); list != "" {
		return strings.Split(list, ":")
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import torch.distributed").Run() == nil {
			return []string{python}
		}
	}
	return nil
})

// pythons returns the interpreters to test with. The test is skipped if there is none.
func pythons(t *testing.T) []string {
	t.Helper()
	if findPythons() == nil {
		needs.Skip(t, "no PyTorch: apt-get install python3-torch (make test does it), or set "+pythonEnv)
	}
	return findPythons()
}

// job is a job on an emulated fabric of two nodes.
type job struct {
	python string
	ranks  int      // 2 if it is not set
	flags  []string // of ddlemu run
	env    []string
	unset  string // variable that the ranks do not get
	// The job has a library of its own in env.
	ownLibrary bool
	limit      time.Duration // the constant limit if it is not set
	// The program prints what it has done, and hangs if it prints nothing for the constant limit.
	prints bool
}

// run runs a program of testdata on each rank.
func (j job) run(t *testing.T, program string, args ...string) world.Outcome {
	t.Helper()
	longest := cmp.Or(j.limit, limit)
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	flags := append([]string{"run"}, j.flags...)
	for _, otherwise := range [][2]string{{"--profile", "loopback"}, {"--nodes", "2"}} {
		if !slices.Contains(j.flags, otherwise[0]) {
			flags = append(flags, otherwise[:]...)
		}
	}
	if !j.ownLibrary {
		flags = append(flags, ncclFlag()...)
	}
	command := append(launcher(t, j.python, cmp.Or(j.ranks, 2)), world.Absolute(t, "testdata", program))
	if j.unset != "" {
		command = append([]string{"env", "--unset=" + j.unset}, command...)
	}
	cmd := exec.CommandContext(ctx, built.Path(t, "bin", "ddlemu"),
		slices.Concat(flags, []string{"--"}, command, args)...)
	silence := longest
	if j.prints {
		silence = limit
	}
	hang := fmt.Sprintf("HANG=%.0f", (silence - hangsBefore).Seconds())
	o := finish(t, cmd, append(append(environment(t), hang), j.env...))
	failIfOver(ctx, t, longest, o)
	return o
}

// ncclFlag returns the flag of `ddlemu run` for the version of NCCL that the variable DDLEMU_TEST_NCCL names, if it
// does.
func ncclFlag() []string {
	if version := os.Getenv("DDLEMU_TEST_NCCL"); version != "" {
		return []string{"--nccl", version}
	}
	return nil
}

// launcher starts a program on each rank: one launcher for all nodes, among which ddlemu divides the ranks. It is run as
// a file, so that it does not import torch.
func launcher(t *testing.T, python string, ranks int) []string {
	t.Helper()
	if !strings.Contains(python, "/") {
		needs.Program(t, python)
	}
	return []string{python, built.Path(t, "torch", "ddlemu_torch", "launch.py"), "--nnodes", "1", "--nproc-per-node",
		strconv.Itoa(ranks)}
}

// finish runs a command in a folder of its own, and ends what it leaves.
func finish(t *testing.T, cmd *exec.Cmd, env []string) world.Outcome {
	t.Helper()
	cmd.Dir, cmd.Env = t.TempDir(), env
	return world.Finish(t, cmd)
}

// good runs a program that must succeed on all ranks. With gloo no rank uses NCCL, which ddlemu run says by its exit
// status, unless NCCL carries what the program asks gloo for.
func (j job) good(t *testing.T, program string, args ...string) world.Outcome {
	t.Helper()
	o := j.run(t, program, args...)
	want := 0
	if slices.Contains(args, "gloo") && !slices.Contains(j.env, aliasGloo) {
		want = 3
	}
	if o.Exit != want {
		t.Fatalf("exit status %d, want %d\n%s%s", o.Exit, want, o.Stdout, o.Stderr)
	}
	if strings.Contains(o.Stderr, "Traceback") || strings.Contains(o.Stderr, "Exception ignored") {
		t.Errorf("an error was printed:\n%s", o.Stderr)
	}
	return o
}

// start runs a command with the environment of the tests.
func start(t *testing.T, command []string) world.Outcome {
	t.Helper()
	return startWithin(t, limit, command)
}

// startWithin is start with a longest time of the command.
func startWithin(t *testing.T, longest time.Duration, command []string) world.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	o := finish(t, exec.CommandContext(ctx, command[0], command[1:]...), environment(t))
	failIfOver(ctx, t, longest, o)
	return o
}

// failIfOver ends the test if the program was killed because its time was over.
func failIfOver(ctx context.Context, t *testing.T, longest time.Duration, o world.Outcome) {
	t.Helper()
	if ctx.Err() != nil {
		t.Fatalf("it did not end within %v\n%s%s", longest, o.Stdout, o.Stderr)
	}
}

// output runs a program, which must succeed, and returns what it printed.
func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", program, args, err, out, stderr.String())
	}
	return string(out)
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

// readPrograms reads all files of the folders. Go then knows that the test depends on them, and does not take an
// earlier result from its cache when one has changed.
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

// each runs a test with each interpreter.
func each(t *testing.T, test func(t *testing.T, python string)) {
	t.Helper()
	for _, python := range pythons(t) {
		t.Run(strings.ReplaceAll(strings.Trim(python, "/"), "/", "-"), func(t *testing.T) { test(t, python) })
	}
}
