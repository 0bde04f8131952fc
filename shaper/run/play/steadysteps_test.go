// SPDX-License-Identifier: Apache-2.0

package play

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// planned are the plans of two ranks that make these calls: a letter is a call of so many elements, a bar ends a step.
func planned(t *testing.T, steps string) []*plan {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"format":"ddlemu.workload/1","ranks":2}` + "\n")
	for i, c := range steps {
		switch c {
		case '|':
			b.WriteString(`{"op":"step"}` + "\n")
		case ' ': // how long a rank computes is no call
			b.WriteString(`{"op":"calc","ns":` + strings.Repeat("7", 1+i%5) + "}\n")
		default:
			b.WriteString(`{"op":"coll","func":"AllReduce","count":` + strings.Repeat("1", int(c-'a'+1)) +
				`,"type":"float32"}` + "\n")
		}
	}
	w, err := workload.Read("f", strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	n, err := StepsOf(ix)
	if err != nil {
		t.Fatal(err)
	}
	plans, err := (&planner{ix: ix, steps: n}).plans()
	if err != nil {
		t.Fatal(err)
	}
	return plans
}

// A warm-up and what ends the job make other calls than most steps. A step between others that calls something else is
// one of the job's.
func TestUsual(t *testing.T) {
	for steps, want := range map[string]Usual{
		"ab|ab|ab":              {0, 3},
		"c|ab|ab|ab|":           {1, 4},
		"c| ab|d|a b|ab |ab|d|": {1, 6},
		"c|d|ab|ab|ab|d":        {2, 5},
		"ab|ba|ab|ba":           {0, 3}, // the order counts
		"a|b|c|d":               {},     // no calls are those of most steps
		"a|b":                   {},
		"|a|a|a":                {1, 4}, // a step without calls
	} {
		if got := usualOf(planned(t, steps)); got != want {
			t.Errorf("%s: %+v, want %+v", steps, got, want)
		}
	}
}
