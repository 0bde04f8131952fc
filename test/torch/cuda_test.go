// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

// cudaPythonEnv is an interpreter with a PyTorch for CUDA 12, such as PyPI's torch 2.8.0. It has 7 GB, so that no test
// installs it.
const cudaPythonEnv = "DDLEMU_TEST_TORCH_CUDA_PYTHON"

// cudaPython returns the interpreter. The test is skipped if there is none.
func cudaPython(t *testing.T) string {
	t.Helper()
	python := os.Getenv(cudaPythonEnv)
	if python == "" {
		t.Skip("no PyTorch for CUDA 12: pip install torch==2.8.0, and set " + cudaPythonEnv + " to its python")
	}
	return python
}

// runCUDA runs a program of testdata by torchrun, one rank on each of two nodes.
func runCUDA(t *testing.T, flags []string, program string, args ...string) world.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first run compiles the operators
	defer cancel()
	command := []string{cudaPython(t), "-m", "torch.distributed.run", "--nproc-per-node", "1",
		world.Absolute(t, "testdata", program)}
	all := slices.Concat([]string{"run", "--profile", "eth10", "--nodes", "2"}, flags, []string{"--"}, command, args)
	return finish(t, exec.CommandContext(ctx, built.Path(t, "bin", "ddlemu"), all...), environment(t))
}

// lines returns the lines of a text with a prefix.
func lines(text, prefix string) (out []string) {
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, prefix) {
			out = append(out, line)
		}
	}
	return out
}

// A script for GPUs, unchanged, gives the losses and weights that the CPU gives, by PyTorch's own backend for NCCL.
func TestCUDA(t *testing.T) {
	want := lines(runCUDA(t, nil, "cuda_ddp.py", "cpu").Stdout, "result ")
	if len(want) != 11 {
		t.Fatalf("on the CPU: %q", want)
	}
	for _, flags := range [][]string{nil, {"--clock", "virtual", "--gpu", "h100-sxm"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			o := runCUDA(t, append(flags, "--cuda"), "cuda_ddp.py", "cuda")
			if got := lines(o.Stdout, "result "); !slices.Equal(got, want) || o.Exit != 0 {
				t.Errorf("exit status %d, %q, want %q\n%s", o.Exit, got, want, o.Stderr)
			}
			name := "ddlemu software GPU 0"
			if flags != nil {
				name = "NVIDIA H100 80GB HBM3"
			}
			if !strings.Contains(o.Stdout, "backend ProcessGroupNCCL "+name+" 1\n") {
				t.Errorf("backend: %s", o.Stdout)
			}
		})
	}
}

// unequal are the operators of OpInfo whose results differ: they have memory that nobody has written, and one takes
// elements outside of its view, which the copy on the CPU has not.
var unequal = []string{"as_strided.partial_views", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
	"new_empty_strided"}

// Each operator gives what the CPU gives, or an error that names it.
func TestCUDAOperators(t *testing.T) {
	o := runAlone(t, "cuda_operators.py", "30")
	if o.Exit != 0 {
		t.Fatalf("exit status %d\n%s", o.Exit, o.Text())
	}
	t.Log(strings.Join(lines(o.Stdout, "numbers "), ""))
	for _, verdict := range []string{"different: ", "error: "} {
		for _, line := range lines(o.Stdout, verdict) {
			name, _, _ := strings.Cut(strings.TrimPrefix(line, verdict), ":")
			if verdict == "error: " || !slices.Contains(unequal, name) {
				t.Error(line)
			}
		}
	}
}

// What cannot be is refused by name, and what must be equal to a GPU's is.
func TestCUDACases(t *testing.T) {
	o := runAlone(t, "cuda_cases.py")
	if o.Exit != 0 || !strings.HasSuffix(o.Stdout, "done\n") {
		t.Errorf("exit status %d\n%s", o.Exit, o.Text())
	}
}

// runAlone runs a program of testdata once, on the software CUDA. It makes no communicator, which is exit status 3.
func runAlone(t *testing.T, program string, args ...string) world.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	command := append([]string{"run", "--profile", "loopback", "--cuda", "--", cudaPython(t),
		world.Absolute(t, "testdata", program)}, args...)
	o := finish(t, exec.CommandContext(ctx, built.Path(t, "bin", "ddlemu"), command...), environment(t))
	if o.Exit == 3 {
		o.Exit = 0
	}
	return o
}
