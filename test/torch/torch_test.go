// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

// Every operation with every type, on 2 ranks, and on 4 ranks of 2 nodes.
func TestOperations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		for _, ranks := range []int{2, 4} {
			job{python: python, ranks: ranks, limit: exampleLimit, prints: true}.good(t, "operations.py")
		}
	})
}

var weightsLine = regexp.MustCompile(`(?m)^rank \d weights ([0-9a-f]{64})$`)

// DDP gives the weights that it gives with gloo, to the bit, and on a virtual clock the job is VALID.
func TestTraining(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		train := func(backend string, flags ...string) string {
			o := job{python: python, flags: flags}.good(t, "ddp.py", backend)
			found := weightsLine.FindAllStringSubmatch(o.Stdout, -1)
			if len(found) != 2 || found[0][1] != found[1][1] {
				t.Fatalf("the weights of %s: %s", backend, o.Stdout)
			}
			if backend == "ddlemu" && !strings.Contains(o.Stderr, "verdict: VALID") {
				t.Errorf("the job is not VALID: %s", o.Stderr)
			}
			return found[0][1]
		}
		want := train("gloo")
		if got := train("ddlemu", append(virtual, "--profile", "eth10")...); got != want {
			t.Errorf("weights %s, with gloo %s", got, want)
		}
	})
}

// A rank fails. Every other rank that is in the operation raises in time, and names the cause.
func TestFailures(t *testing.T) {
	cases := []struct {
		name  string
		ranks int
		who   []string // ranks that raise
		env   []string
		flags []string
	}{
		{name: "kill", ranks: 2, who: []string{"0"}},
		{name: "kill", ranks: 4, who: []string{"0", "1", "2"}},
		{name: "survive", ranks: 4, who: []string{"0", "1", "2"}},
		{name: "elsewhere", ranks: 4, who: []string{"0"}},
		{name: "kill_alltoall", ranks: 2, who: []string{"1"}},
		{name: "kill_before_first", ranks: 2, who: []string{"0"}},
		{name: "kill_host", ranks: 2, who: []string{"1"}},
		{name: "kill_pair", ranks: 2, who: []string{"1"}},
		{name: "exception", ranks: 2, who: []string{"1"}},
		{name: "stop", ranks: 2, who: []string{"1"}},
		{name: "stop", ranks: 4, who: []string{"1", "2", "3"}},
		{name: "mismatch", ranks: 2, who: []string{"0", "1"}},
		{name: "mismatch", ranks: 4, who: []string{"0", "1", "2", "3"}},
		{name: "threads", ranks: 2, who: []string{"0", "1"}},
		{name: "link", ranks: 2, who: []string{"0", "1"}, flags: []string{"--set", "transport=rdma"}},
		{name: "link", ranks: 4, who: []string{"0", "1", "2", "3"}, flags: []string{"--set", "transport=rdma"}},
		{name: "absent", ranks: 2, who: []string{"1"}},
		{name: "not_coming", ranks: 2, who: []string{"1"}},
		{name: "unanswered", ranks: 2, who: []string{"1", "1"}},
		{name: "short", ranks: 2, who: []string{"1"}},
		{name: "future", ranks: 2, who: []string{"1"}},
		{name: "abort", ranks: 2, who: []string{"1"}},
		{name: "monitored", ranks: 2, who: []string{"0"}},
		{name: "monitored_death", ranks: 4, who: []string{"0", "1", "2"}},
		{name: "compared", ranks: 2, who: []string{"0", "1"}, env: []string{"DDLEMU_TORCH_CHECK=1"}},
	}
	each(t, func(t *testing.T, python string) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				o := job{python: python, ranks: c.ranks, env: c.env, flags: c.flags}.run(t, "failures.py", c.name)
				for _, rank := range c.who {
					if !strings.Contains(o.Stdout, "rank "+rank+" raised after ") {
						t.Errorf("rank %s did not raise", rank)
					}
				}
				if strings.Contains(o.Stdout, "WRONG") || t.Failed() {
					t.Errorf("it printed\n%s%s", o.Stdout, o.Stderr)
				}
			})
		}
	})
}

// Cases that need a job of their own.
func TestCases(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		for _, name := range []string{"alone", "opposite", "refusals", "leave", "again", "workers", "threads", "stub",
			"polling",
			"forms", "monitored", "compiled", "dropped", "held", "moved", "itself"} {
			t.Run(name, func(t *testing.T) { job{python: python}.good(t, "cases.py", name) })
		}
		t.Run("link_back", func(t *testing.T) {
			job{python: python, ranks: 4, flags: []string{"--set", "transport=tcp"}}.good(t, "failures.py", "link_back")
		})
		t.Run("restarted", func(t *testing.T) { job{python: python}.good(t, "failures.py", "restarted") })
		t.Run("ring", func(t *testing.T) {
			job{python: python, ranks: 3, flags: []string{"--nodes", "3"}}.good(t, "cases.py", "opposite")
		})
		for _, name := range []string{"nccl", "gloo"} {
			t.Run("alias "+name, func(t *testing.T) {
				job{python: python, env: []string{aliasGloo}}.good(t, "cases.py", "alias", name)
			})
		}
	})
}

// Tags of sends and receives are ignored, and one line says so.
func TestTags(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		o := job{python: python}.good(t, "cases.py", "tags")
		if n := strings.Count(o.Stderr, "NCCL has no tags"); n != 1 {
			t.Errorf("%d notes: %s", n, o.Stderr)
		}
	})
}

// torch's own debug mode puts a process group of its own around the backend.
func TestDebugDetail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		job{python: python, env: []string{"TORCH_DISTRIBUTED_DEBUG=DETAIL"}}.good(t, "ddp.py", "ddlemu")
	})
}

// A torch that was built for CUDA sees no GPU, and its CUDA runtime and another one in the process do no harm.
func TestCUDABuild(t *testing.T) {
	each(t, func(t *testing.T, python string) {
		if strings.TrimSpace(output(t, python, "-c", "import torch; print(torch.version.cuda)")) == "None" {
			t.Skipf("SKIPPED: the torch of %s is not built for CUDA (pip install torch, and set %s)", python, pythonEnv)
		}
		runtime := built.Path(t, "cudart", "nvidia", "cuda_runtime", "lib", "libcudart.so.12") // by .ci/cudart
		for _, libraries := range [][]string{nil, {runtime}} {
			o := job{python: python}.good(t, "cuda_build.py", libraries...)
			if n := strings.Count(o.Stdout, " is beside ddlemu's\n"); n != 2 {
				t.Errorf("%d ranks: %s", n, o.Stdout)
			}
		}
	})
}

// A tensor of more than 2 GiB.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 5 GB of memory")
	}
	job{python: pythons(t)[0]}.good(t, "cases.py", "large")
}

// seedsEnv is with how many seeds TestRandomCalls runs, callsEnv is how many calls it makes with each.
const (
	seedsEnv = "DDLEMU_TEST_SEEDS"
	callsEnv = "DDLEMU_TEST_CALLS"
)

// longestCall is how long a random call may take at most, on the mean, on a busy host.
const longestCall = 500 * time.Millisecond

// Random calls give what they give with gloo. Every third seed is with 4 ranks.
func TestRandomCalls(t *testing.T) {
	t.Parallel()
	seeds, calls := variable(t, seedsEnv, 3), variable(t, callsEnv, 80)
	longest := limit + time.Duration(calls)*longestCall
	each(t, func(t *testing.T, python string) {
		for seed := 1; seed <= seeds; seed++ {
			j := job{python: python, limit: longest}
			if seed%3 == 0 {
				j.ranks = 4
			}
			began := time.Now()
			j.good(t, "random_calls.py", strconv.Itoa(seed), strconv.Itoa(calls))
			t.Logf("seed %d: %d calls in %.0f s", seed, calls, time.Since(began).Seconds())
		}
	})
}

// A group takes little memory, and what a destroyed group had is given back.
func TestMemory(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		eth := job{python: python, ranks: 4, flags: append(virtual, "--profile", "eth10")}
		for _, o := range []world.Outcome{
			eth.good(t, "memory.py", "groups", "6", "6"),
			job{python: python, ranks: 4}.good(t, "memory.py", "groups", "3", "7"),
			job{python: python}.good(t, "memory.py", "again", "6", "1"),
		} {
			t.Log(o.Stdout)
		}
	})
}

// A rank does not grow by its calls: 3000 calls of each operation leave no tensors behind.
func TestMemoryOfCalls(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		o := job{python: python, limit: exampleLimit, prints: true}.good(t, "calls_memory.py", "3000", "100")
		t.Log(o.Stdout)
	})
}

// Without the library one line says what to do.
func TestNoLibrary(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		for value, want := range map[string]string{
			"":            "ddlemu: DDLEMU_TORCH_NCCL is not set: start the program with `ddlemu run -- COMMAND`, which sets it",
			"/nowhere.so": "ddlemu: load NCCL (DDLEMU_TORCH_NCCL=/nowhere.so): /nowhere.so: cannot open shared object file",
			"libm.so.6":   "ddlemu: libm.so.6 has no function nccl",
		} {
			j := job{python: python, env: []string{"DDLEMU_TORCH_NCCL=" + value}, ownLibrary: true}
			if value == "" { // as outside a job, where nothing mends a torch without libuv
				j.unset, j.env = "DDLEMU_TORCH_NCCL", append(j.env, "USE_LIBUV=0")
			}
			o := j.run(t, "cases.py", "alone")
			if o.Exit == 0 ||
				!slices.ContainsFunc(strings.Split(o.Stderr, "\n"),
					func(line string) bool { return strings.Contains(line, want) }) {
				t.Errorf("%q: exit status %d\n%s", value, o.Exit, o.Stderr)
			}
		}
	})
}
