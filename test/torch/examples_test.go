// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

// examples is the folder of the examples, from testdata.
const examples = "../../../docs/examples/torch"

var (
	hashLine  = regexp.MustCompile(`(?m)^weights of rank \d: [0-9a-f]{64}$`)
	lossLine  = regexp.MustCompile(`(?m)^step +\d+  loss ([0-9.]+)`)
	needsLine = regexp.MustCompile(`(?m)^.* needs torch (\d+\.\d+) or later, and this is torch (\d+)\.(\d+).*$`)
)

// ranksEnv lists numbers of ranks, such as "2 4". With it each training example runs with all of them, and not only
// with one. `make torch-matrix` sets it.
const ranksEnv = "DDLEMU_TEST_TORCH_RANKS"

// exampleLimit is the longest time of an example. Most take 10 to 20 s; on a busy host some took more than 3 minutes.
const exampleLimit = 15 * time.Minute

// training is a training example.
type training struct {
	name    string
	program string
	ranks   int
	args    []string
	oldest  [2]int // version of torch
}

var trainings = []training{
	{"ddp", "cnn_ddp.py", 2, []string{"--steps", "20", "--no-exact"}, [2]int{}},
	{"ddp exact", "cnn_ddp.py", 4, []string{"--steps", "11"}, [2]int{}},
	{"fsdp1", "gpt_fsdp.py", 2, []string{"--steps", "6"}, [2]int{2, 2}},
	{"fsdp2", "gpt_fsdp.py", 4, []string{"--steps", "6", "--fsdp", "2"}, [2]int{2, 14}},
	{"tensor and pipeline", "tensor_pipeline.py", 4, []string{"--steps", "11"}, [2]int{}},
	{"moe", "moe_all_to_all.py", 4, []string{"--steps", "11"}, [2]int{}},
	{"dlrm", "dlrm.py", 2, []string{"--steps", "11"}, [2]int{}},
}

// withRanks returns the numbers of ranks to train with. Without exact sums two ranks alone give gloo's weights.
func (c training) withRanks(t *testing.T) []int {
	t.Helper()
	if os.Getenv(ranksEnv) == "" || slices.Contains(c.args, "--no-exact") {
		return []int{c.ranks}
	}
	var ranks []int
	for _, field := range strings.Fields(os.Getenv(ranksEnv)) {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatalf("%s: %v", ranksEnv, err)
		}
		ranks = append(ranks, n)
	}
	return ranks
}

// Each training example gives the weights that it gives with gloo, to the bit. Its loss falls, and on a virtual clock
// it is VALID.
func TestExamples(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		readPrograms(t, filepath.Join("testdata", examples))
		for _, c := range trainings {
			for _, ranks := range c.withRanks(t) {
				t.Run(fmt.Sprintf("%s of %d ranks", c.name, ranks), func(t *testing.T) { c.compare(t, python, ranks) })
			}
		}
	})
}

// compare trains with ddlemu and with gloo.
func (c training) compare(t *testing.T, python string, ranks int) {
	t.Helper()
	j := job{python: python, ranks: ranks, flags: onVirtualClock("ndr400"), limit: exampleLimit}
	got := j.run(t, examples+"/"+c.program, c.args...)
	skipIfTooOld(t, got, c.oldest)
	if got.Exit != 0 || !strings.Contains(got.Stderr, "verdict: VALID") {
		t.Fatalf("exit status %d, or it is not VALID\n%s%s", got.Exit, got.Stdout, got.Stderr)
	}
	gloo := j.good(t, examples+"/"+c.program, append(slices.Clone(c.args), "--backend", "gloo")...)
	compareTraining(t, got.Stdout, gloo.Stdout, ranks)
}

// Each rank says that torch is too old. Rank 0 alone did: when another rank had ended, the launcher of a busy host
// ended rank 0 before it had said it.
func TestTooOld(t *testing.T) {
	each(t, func(t *testing.T, python string) {
		const program = "import sys; sys.path.insert(0, sys.argv[1]); import common; common.need((99, 0), 'this')"
		o := start(t, []string{"env", "RANK=1", python, "-c", program, world.Absolute(t, "testdata", examples)})
		if o.Exit != 1 || !strings.Contains(o.Stderr, "this needs torch 99.0 or later, and this is torch ") {
			t.Errorf("exit status %d\n%s", o.Exit, o.Stderr)
		}
	})
}

// onVirtualClock returns the flags of ddlemu run. On a busy host a rank may take minutes until it calls NCCL.
func onVirtualClock(profile string) []string {
	return []string{"--profile", profile, "--clock", "virtual", "--compute-hold", "5m"}
}

// skipIfTooOld skips the test if the program has said, in one line, that torch is too old, and if it is.
func skipIfTooOld(t *testing.T, o world.Outcome, oldest [2]int) {
	t.Helper()
	line := needsLine.FindStringSubmatch(o.Stderr)
	if line == nil {
		return
	}
	major, _ := strconv.Atoi(line[2])
	minor, _ := strconv.Atoi(line[3])
	if o.Exit == 0 || slices.Compare([]int{major, minor}, oldest[:]) >= 0 {
		t.Fatalf("exit status %d: %s", o.Exit, line[0])
	}
	t.Skip("SKIPPED: " + line[0])
}

// compareTraining compares what a program has printed with ddlemu and with gloo.
func compareTraining(t *testing.T, got, gloo string, ranks int) {
	t.Helper()
	weights, want := hashLine.FindAllString(got, -1), hashLine.FindAllString(gloo, -1)
	if len(weights) != ranks || !slices.Equal(weights, want) {
		t.Errorf("the weights are\n%s\nand with gloo\n%s", got, gloo)
	}
	losses := lossLine.FindAllStringSubmatch(got, -1)
	if len(losses) < 2 {
		t.Fatalf("there are no two losses:\n%s", got)
	}
	first, _ := strconv.ParseFloat(losses[0][1], 64)
	last, _ := strconv.ParseFloat(losses[len(losses)-1][1], 64)
	if last >= first {
		t.Errorf("the loss does not fall: it is %v, then %v", first, last)
	}
}

// A rank is killed, and torchrun starts both again. The weights are those of a run without interruption.
func TestElasticExample(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		args := []string{"--steps", "12"}
		want := job{python: python, limit: exampleLimit}.good(t, examples+"/elastic.py", args...)
		// This torchrun also works in Debian 12.
		torchrun, err := filepath.Abs("../programs/testdata/bin/torchrun")
		if err != nil {
			t.Fatal(err)
		}
		run := append([]string{built.Path(t, "bin", "ddlemu"), "run", "--profile", "loopback", "--nodes", "2"},
			ncclFlag()...)
		line := []string{"--", python, torchrun, "--nproc-per-node", "1", "--max_restarts", "1",
			world.Absolute(t, "testdata", examples+"/elastic.py"), "--kill", "7"}
		got := startWithin(t, exampleLimit, slices.Concat(run, line, args))
		for _, line := range []string{"start at step 0\n", "rank 1 kills itself at step 7\n", "start at step 5\n"} {
			if !strings.Contains(got.Stdout, line) {
				t.Errorf("no line %q", line)
			}
		}
		hashes := hashLine.FindAllString(got.Stdout, -1)
		if len(hashes) != 2 || !slices.Equal(hashes, hashLine.FindAllString(want.Stdout, -1)) || t.Failed() {
			t.Errorf("exit status %d\n%s%s\nwithout interruption\n%s", got.Exit, got.Stdout, got.Stderr, want.Stdout)
		}
	})
}

var tableRow = regexp.MustCompile(`(?m)^(ddp|fsdp|tp) +eth10 +(\d+) +(\d+) +([0-9.]+) +([0-9.]+) +VALID$`)

// The table has the bytes that each way must send, and all ways train equally.
func TestParallelismTable(t *testing.T) {
	t.Parallel()
	const (
		steps      = 3
		outside    = 144*64 + 64 + 64*10 + 10 // parameters outside the blocks
		parameters = outside + 4*(2*64+2*64*256+256+64)
		activation = 64 * 64
	)
	each(t, func(t *testing.T, python string) {
		o := startWithin(t, exampleLimit,
			append([]string{python, world.Absolute(t, "testdata", examples+"/parallelism_table.py"), "--steps",
				strconv.Itoa(steps),
				"--profiles", "eth10", "--ddlemu", built.Path(t, "bin", "ddlemu")}, ncclFlag()...))
		rows := map[string][]string{}
		for _, row := range tableRow.FindAllStringSubmatch(o.Stdout, -1) {
			rows[row[1]] = row
		}
		if rows["ddp"] == nil || rows["tp"] == nil || o.Exit != 0 {
			t.Fatalf("exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
		}
		skipped := strings.Contains(o.Stdout, "skipped: FSDP on the CPU needs torch ")
		if skipped == (rows["fsdp"] != nil) {
			t.Errorf("FSDP is neither there nor skipped, or both:\n%s", o.Stdout)
		}
		// Of all-reduces between two ranks each sends as many bytes as they have, or twice as many with NCCL's flags
		// (LL). FSDP has twice an all-gather and a reduce-scatter, of half as many each; it keeps what is outside the
		// blocks between the forward and the backward pass, so that is gathered once.
		perStep := map[string]int{"ddp": 4 * parameters, "tp": 4 * 8 * activation,
			"fsdp": 4 * (3*parameters - outside) / 2}
		for way, payload := range perStep {
			least := steps * payload
			if rows[way] == nil {
				continue
			}
			if sent, _ := strconv.Atoi(rows[way][3]); sent < least || sent > 21*least/10 {
				t.Errorf("%s sent %d bytes from node 1, and not %d to twice that\n%s", way, sent, least, o.Stdout)
			}
			if rows[way][5] != rows["ddp"][5] {
				t.Errorf("the last loss of %s differs\n%s", way, o.Stdout)
			}
		}
		if skipped {
			t.Log("SKIPPED: FSDP: this torch is too old")
		}
	})
}

var sweepLine = regexp.MustCompile(`(?m)^pytorch_Allreduce_(\d+) durationUs: \d+\.\d$`)

// test_generic checks all operations with all types. A sweep has five calls of each size from 16 to 8192 floats.
func TestGenericExample(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		o := job{python: python, limit: exampleLimit}.good(t, examples+"/test_generic.py", "--sizes", "16", "1000",
			"8192", "--repeats", "1")
		if !strings.Contains(o.Stdout,
			"\n288 combinations of operation, type and size on 2 ranks with ddlemu: 0 wrong elements\n") {
			t.Errorf("it printed\n%s%s", o.Stdout, o.Stderr)
		}
		o = job{python: python}.good(t, examples+"/test_generic.py", "--sweep", "--op", "all_reduce")
		var calls []string
		for _, m := range sweepLine.FindAllStringSubmatch(o.Stdout, -1) {
			calls = append(calls, m[1])
		}
		if want := strings.Fields(strings.Repeat("64 ", 5) + strings.Repeat("128 ", 5)); len(calls) != 50 ||
			!slices.Equal(calls[:10], want) {
			t.Errorf("the sweep printed\n%s%s", o.Stdout, o.Stderr)
		}
		o = job{python: python}.good(t, examples+"/test_generic.py", "--backend", "gloo", "--op", "all_reduce",
			"--dtype", "int32")
		if !strings.Contains(o.Stdout,
			"\n14 combinations of operation, type and size on 2 ranks with gloo: 0 wrong elements\n") {
			t.Errorf("it printed\n%s%s", o.Stdout, o.Stderr)
		}
	})
}
