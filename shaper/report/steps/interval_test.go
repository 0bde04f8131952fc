// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// The total and JSON have both cases of a recording that does not say who waited, and one sentence says why. Without an
// interval there is one time.
func TestIntervalOutput(t *testing.T) {
	const reason = "The recording does not say whether 2 of 3 computations began only when the call before had ended: " +
		"5.000 ms if they did, 3.000 ms if not."
	for total, c := range map[string]struct{ interval, forecast bool }{
		"# Time of all steps    : 5.000 ms\n":                            {false, true},
		"# Time of all steps    : 3.000 to 5.000 ms\n# " + reason:        {true, true},
		"# Time of all steps    : 5.000 ms; by the model 3.000 to 5.000": {true, false},
	} {
		r := swept(t, "bw=1G,10G", 200, 100).Results[0]
		r.Forecast, r.Time = c.forecast, 5*time.Millisecond
		if c.interval {
			r.Interval = play.Interval{Shortest: r.Time, Longest: 3 * time.Millisecond, Reason: reason}
		}
		var b strings.Builder
		if err := r.WriteText(&b, ""); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), total) {
			t.Errorf("there is no %q in\n%s", total, b.String())
		}
		got := r.Report().Interval
		if (got != nil) != c.interval {
			t.Fatalf("%+v", got)
		}
		if got != nil && *got != (IntervalReport{3000, 5000, reason}) {
			t.Errorf("%+v", *got)
		}
	}
}
