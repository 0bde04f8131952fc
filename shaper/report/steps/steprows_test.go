// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// A step that differs from the others is shown, wherever it is.
func TestFoldSteps(t *testing.T) {
	alike := func(at ...int) func(int) time.Duration {
		return func(i int) time.Duration {
			for _, other := range at {
				if i == other {
					return time.Second
				}
			}
			return time.Millisecond
		}
	}
	rising := func(i int) time.Duration { return time.Duration(50-i) * time.Millisecond } // 50 to 1
	for name, test := range map[string]struct {
		n    int
		took func(int) time.Duration
		rows string
		note string
	}{
		"few":             {3, alike(), "1 2 3", ""},
		"20":              {20, alike(), "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", ""},
		"all the same":    {100, alike(), "1-100", ""},
		"the last":        {100, alike(99), "1-99 100", ""},
		"one, in between": {100, alike(57), "1-57 58 59-100", ""},
		"all differ": {50, rising, "1 2 3 4 5 6 7 8 9 10 41 42 43 44 45 46 47 48 49 50",
			"30 more steps, of 11.000 to 40.000 ms: see --json; shown are the first one and those that differ most from the median, 26.000 ms"},
	} {
		rows, note := foldSteps(test.n, func(i int) string { return test.took(i).String() }, test.took)
		var got []string
		for i := range rows {
			got = append(got, rows[i].name())
		}
		if text := strings.Join(got, " "); text != test.rows || note != test.note {
			t.Errorf("%s: rows %s; %s", name, text, note)
		}
	}
}

// The table of a forecast and of two fabrics have the row.
func TestStepsThatDifferAreShown(t *testing.T) {
	r := &Result{Result: &play.Result{Forecast: true, Facts: play.Facts{Workload: workloadOf(t, 1)}}}
	for i := range 96 {
		r.Steps = append(r.Steps, play.Step{Time: 300 * time.Millisecond, Compute: 300 * time.Millisecond})
		if i == 95 {
			r.Steps[i] = play.Step{Time: 1300 * time.Millisecond, Compute: 300 * time.Millisecond, Exposed: time.Second}
		}
	}
	one := &text{Result: r}
	one.steps()
	two := &text{Result: r}
	two.comparedSteps(&Comparison{Original: r, Emulated: r})
	for i, got := range []string{one.b.String(), two.b.String()} {
		for _, want := range []string{"    1-95  ", "      96  "} {
			if !strings.Contains(got, "\n"+want) {
				t.Errorf("table %d has no row %q:\n%s", i+1, want, got)
			}
		}
	}
	if want := fmt.Sprintf("%10s  %10s  %10s", "1300.000", "300.000", "1000.000"); !strings.Contains(one.b.String(),
		want) {
		t.Errorf("no %q:\n%s", want, one.b.String())
	}
}
