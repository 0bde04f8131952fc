// SPDX-License-Identifier: Apache-2.0

package link

import (
	"reflect"
	"testing"
)

// Every counter with a name says what it counts, and no two have the same names.
func TestShownCounters(t *testing.T) {
	names := map[string]bool{}
	for _, c := range ShownCounters() {
		for _, name := range []string{c.Name, c.Metric} {
			if name == "" || c.Help == "" || names[name] {
				t.Errorf("%+v: no name, no help, or the name of another counter", c)
			}
			names[name] = true
		}
	}
	if n, all := len(ShownCounters()), reflect.TypeFor[Counters]().NumField(); n != all-1 {
		t.Errorf("%d of %d counters are shown, want all but the segments", n, all)
	}
}

func TestCounterValues(t *testing.T) {
	c := Counters{Bytes: 5, Drops: 1 << 60, BusyNs: 4e9, PausedNs: 2_000_400}.Stated(4)
	for _, tc := range []struct {
		metric, text string
		value        float64
	}{
		{"transmit_bytes_total", "5", 5}, {"wire_bytes_total", "0", 0}, {"drops_total", "1152921504606846976", 1 << 60},
		{"busy_seconds_total", "1s", 1}, {"paused_seconds_total", "500µs", 0.0005001}, {"pauses_total", "0", 0},
	} {
		for _, n := range ShownCounters() {
			if n.Metric == tc.metric && (n.Text(&c) != tc.text || n.Value(&c) != tc.value) {
				t.Errorf("%s is %s and %g, want %s and %g", tc.metric, n.Text(&c), n.Value(&c), tc.text, tc.value)
			}
		}
	}
	// A reader of another process may see less than before.
	if got := (Counters{Bytes: 7, Drops: 1}).Since(Counters{Bytes: 5, Drops: 2}); got != (Counters{Bytes: 2}) {
		t.Errorf("got %+v", got)
	}
	columns := WithColumn([]Counters{{Bytes: 1}, {PausedNs: 1, ECNMarks: 1}}, func(c *Counters) *Counters { return c })
	if len(columns) != 2 || columns[0].Column != "ECN marks" || columns[1].Column != "paused for" {
		t.Errorf("columns %+v", columns)
	}
}
