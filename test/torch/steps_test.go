// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"cmp"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

const steps = 4

// stepEnd is when a step of a rank ended, in ns of the fabric's clock, and what of it was computation.
type stepEnd struct{ end, compute int64 }

var stepLine = regexp.MustCompile(`(?m)^rank (\d) step (\d) (\d+) (\d+)$`)

// trainSteps runs a DDP job on a virtual clock. The keys are rank and step.
func trainSteps(t *testing.T, python string, flags ...string) map[[2]int]stepEnd {
	t.Helper()
	o := job{python: python, flags: slices.Concat(virtual, []string{"--profile", "eth10"}, flags)}.good(t, "steps.py",
		strconv.Itoa(steps))
	if !strings.Contains(o.Stderr, "verdict: VALID") {
		t.Errorf("the job is not VALID: %s", o.Stderr)
	}
	ends := map[[2]int]stepEnd{}
	for _, m := range stepLine.FindAllStringSubmatch(o.Stdout, -1) {
		var n [4]int64
		for i := range n {
			n[i], _ = strconv.ParseInt(m[i+1], 10, 64)
		}
		ends[[2]int{int(n[0]), int(n[1])}] = stepEnd{n[2], n[3]}
	}
	if len(ends) != 2*steps {
		t.Fatalf("it printed\n%s", o.Stdout)
	}
	return ends
}

// A step ends when `ddlemu why` says that the last byte of its last AllReduce came, with any latency: a longer latency
// makes each step longer by exactly that. After the first step torch divides the gradients into other buckets, each
// with an AllReduce; into how many depends on its version.
func TestStepsEndAsWhySays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		for _, latency := range []string{"5us", "5ms"} {
			trace := filepath.Join(t.TempDir(), "trace")
			ends := trainSteps(t, python, "--lat", latency, "--trace", trace)
			calls := reduces(t, trace)
			for step := range steps {
				calls = calls[endOfStep(t, ends, step, calls):]
			}
			if len(calls) != 0 {
				t.Errorf("--lat %s: the last byte of %v came after the last step", latency, calls)
			}
			recordSteps(t, trace)
		}
	})
}

// recordSteps makes a workload of a job that has marked its steps by ddlemu_torch.step(), and checks that they are its
// steps.
func recordSteps(t *testing.T, trace string) {
	t.Helper()
	out, err := exec.Command(built.Path(t, "bin", "ddlemu"), "record", "--from", trace, "--step", "auto", "-o", "-").Output()
	if err != nil {
		t.Fatal(err)
	}
	marks := map[string]int{} // by the ranks that make them
	for _, m := range regexp.MustCompile(`"rank":("0-1"|0|1),"op":"step"`).FindAllStringSubmatch(string(out), -1) {
		marks[m[1]]++
	}
	if both := marks[`"0-1"`]; both+marks["0"] != steps || both+marks["1"] != steps {
		t.Errorf("the ranks have %v marks of steps, want %d\n%s", marks, steps, out)
	}
	if strings.Contains(string(out), "again and again") {
		t.Errorf("the steps are those of the rhythm:\n%s", out)
	}
}

// endOfStep returns how many of the calls, which are in their order, end with a step or before. The rank that has the
// last byte last ends the step at that moment.
func endOfStep(t *testing.T, ends map[[2]int]stepEnd, step int, calls []call) int {
	t.Helper()
	for i, c := range slices.Backward(calls) {
		rank, _ := strconv.Atoi(strings.TrimPrefix(c.LastRank, "rank "))
		if ends[[2]int{rank, step}].end == c.Start+c.Time {
			return i + 1
		}
	}
	t.Fatalf("step %d ends at %d and %d ns, but no last byte came then: %v", step, ends[[2]int{0, step}].end,
		ends[[2]int{1, step}].end, calls)
	return 0
}

type call struct {
	Function string
	Sequence int
	Start    int64  `json:"start_ns"`
	Time     int64  `json:"time_ns"`
	LastRank string `json:"last_rank"`
}

// reduces returns the AllReduces of the steps, in their order. The barrier before the steps is one too.
func reduces(t *testing.T, trace string) (calls []call) {
	t.Helper()
	out, err := exec.Command(built.Path(t, "bin", "ddlemu"), "why", trace, "--json", "--worst", "100").Output()
	if err != nil {
		t.Fatal(err)
	}
	var why struct{ Calls []call }
	if err := json.Unmarshal(out, &why); err != nil {
		t.Fatal(err)
	}
	for _, c := range why.Calls {
		if c.Function == "AllReduce" && c.Sequence > 0 {
			calls = append(calls, c)
		}
	}
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.Sequence, b.Sequence) })
	if len(calls) < steps {
		t.Fatalf("why names %d AllReduces of the steps: %s", len(calls), out)
	}
	return calls
}

// Without computation the next run has the same times.
func TestStepsRepeat(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		if first, second := trainSteps(t, python), trainSteps(t, python); !maps.Equal(first, second) {
			t.Errorf("the steps end at %v, and in the next run at %v", first, second)
		}
	})
}

// With --compute a step has the CPU time of its computation, times the factor.
func TestStepsWithComputation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		compute := func(factor string) (sum int64) {
			for _, e := range trainSteps(t, python, "--compute", "cpu:"+factor) {
				if e.compute <= 0 {
					t.Errorf("factor %s: a step has no computation", factor)
				}
				sum += e.compute
			}
			return sum
		}
		if one, thousand := compute("1"), compute("1000"); thousand < 50*one {
			t.Errorf("computation of %d ns, and with factor 1000 of %d ns", one, thousand)
		}
	})
}
