// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/world"
)

// If links go down in a step for good, every rank fails after the transport's limit. If a plan takes them down for 3 s,
// that step alone takes longer, in each run to the nanosecond.
func TestOutagesOfTheDocs(t *testing.T) {
	t.Parallel()
	const outages = "../../../docs/examples/outages"
	readPrograms(t, filepath.Join("testdata", outages))
	run := func(script string, ranks int, flags ...string) world.Outcome {
		t.Helper()
		return job{python: pythons(t)[0], ranks: ranks, flags: append(flags, virtual...),
			env: []string{"PATH=" + built.Path(t, "bin") + ":" + os.Getenv("PATH")}}.run(t, outages+"/"+script)
	}
	o := run("link_down.py", 2, "--profile", "ndr400")
	if says := "a job that needs a link that is down fails after 470ms of the virtual clock"; o.Exit != 1 ||
		!strings.Contains(o.Stdout, says) {
		t.Errorf("link_down.py: status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
	}
	steps := func(flags ...string) []float64 {
		t.Helper()
		o := run("outage.py", 4, append(flags, "--profile", "eth25-tcp")...)
		var times []float64
		for _, m := range stepTime.FindAllStringSubmatch(o.Stdout, -1) {
			ms, _ := strconv.ParseFloat(m[1], 64) // the expression takes only numbers
			times = append(times, ms)
		}
		if o.Exit != 0 || len(times) != 8 {
			t.Fatalf("outage.py: status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
		}
		return times
	}
	plan := "@" + world.Absolute(t, "..", "..", "docs", "examples", "outages", "outage.yaml")
	without, with := steps(), steps("--set", plan)
	for i := range with {
		longer := 0.0
		if i == 4 {
			longer = 2995
		}
		if d := with[i] - without[i] - longer; d < -0.001 || d > 0.001+longer/500 {
			t.Errorf("step %d: %v ms, %v without the outage", i+1, with[i], without[i])
		}
	}
	if again := steps("--set", plan); !slices.Equal(again, with) {
		t.Errorf("another run has steps of %v ms, the first %v", again, with)
	}
}

var stepTime = regexp.MustCompile(`(?m)^step \d ([\d.]+) ms$`)
