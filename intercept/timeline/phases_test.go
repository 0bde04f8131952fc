// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// drawPhases draws ranges of rank 0 of job A, and returns the slices of each row in the order of their ends.
func drawPhases(t testing.TB, ranges ...ledger.Range) (d *drawn, rows map[string]string) {
	p := played(t)
	for _, r := range ranges {
		p.Trace.Ranges = append(p.Trace.Ranges, messages.Range{PID: 7, Range: r})
	}
	d = draw(t, p, Clock{Scale: 1}, 1000)
	rows = map[string]string{}
	for _, s := range d.slices {
		if path := d.path(s.Track); strings.Contains(path, "phases") {
			rows[path] += fmt.Sprintf("%s %d-%d, ", s.Name, s.At, s.end)
		}
	}
	return d, rows
}

// Ranges of one thread and domain are in each other, others have rows of their own.
func TestDrawPhases(t *testing.T) {
	d, rows := drawPhases(t,
		ledger.Range{Thread: 7, Name: "outer", Begun: 10, Ended: 100},
		ledger.Range{Thread: 7, Name: "inner", Depth: 1, Order: 1, Begun: 10, Ended: 50},
		ledger.Range{Thread: 7, Name: "next", Depth: 1, Order: 2, Begun: 50, Ended: 100},
		ledger.Range{Thread: 7, Name: "in none that is known", Depth: 3, Order: 3, Begun: 200, Ended: 201},
		ledger.Range{Thread: 7, Name: "crosses", Domain: "d", Order: 4, Begun: 60, Ended: 150},
		ledger.Range{Thread: 8, Order: 5, Begun: 60, Ended: 61},
		ledger.Range{Thread: 7, Style: ledger.Started, Name: "one", Order: 6, Begun: 70, Ended: 90},
		ledger.Range{Thread: 8, Style: ledger.Started, Name: "two", Order: 7, Begun: 80, Ended: 95},
		ledger.Range{Thread: 8, Style: ledger.Started, Name: "three", Order: 8, Begun: 91, Ended: 92},
	)
	want := map[string]string{
		"node0/rank 0 of A/phases":                "inner 10-50, next 50-100, outer 10-100, in none that is known 200-201, ",
		"node0/rank 0 of A/phases, domain d":      "crosses 60-150, ",
		"node0/rank 0 of A/phases, thread 8":      "range without a name 60-61, ",
		"node0/rank 0 of A/phases, of any thread": "one 70-90, two 80-95, three 91-92, ",
	}
	if fmt.Sprint(rows) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", rows, want)
	}
	lanes := map[int]bool{}
	for _, s := range d.slices {
		if d.tracks[s.Track].Name == "phases, of any thread" {
			lanes[s.Track] = true
		}
	}
	if len(lanes) != 2 {
		t.Errorf("started ranges are on %d tracks, want 2: two of them overlap", len(lanes))
	}
}

// What has not ended is drawn to the last time that is known, with what is in it.
func TestDrawOpenPhases(t *testing.T) {
	d, rows := drawPhases(t,
		ledger.Range{Thread: 7, Name: "outer", Begun: 10},
		ledger.Range{Thread: 7, Name: "inner", Depth: 1, Order: 1, Begun: 20, Ended: 30},
		ledger.Range{Thread: 7, Name: "open", Depth: 1, Order: 2, Begun: 40},
		ledger.Range{Thread: 7, Style: ledger.Started, Name: "started", Order: 3, Begun: 40},
		ledger.Range{Thread: 8, Name: "last", Order: 4, Begun: 50, Ended: 9_000_000},
	)
	want := map[string]string{
		"node0/rank 0 of A/phases":                "inner 20-30, open 40-9000000, outer 10-9000000, ",
		"node0/rank 0 of A/phases, thread 8":      "last 50-9000000, ",
		"node0/rank 0 of A/phases, of any thread": "started 40-9000000, ",
	}
	if fmt.Sprint(rows) != fmt.Sprint(want) {
		t.Errorf("%v\nwant %v", rows, want)
	}
	if n := len(slices.DeleteFunc(d.instants,
		func(e Event) bool { return e.Name != "not ended" || e.At != 9_000_000 })); n != 3 {
		t.Errorf("%d marks that a range had not ended, want 3", n)
	}
}

// Whatever the ranges are, also damaged ones: all slices nest, and each range has one.
func TestPropertyPhases(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []ledger.Range
		for i := range rapid.IntRange(0, 12).Draw(rt, "ranges") {
			all = append(all, ledger.Range{
				Thread: rapid.Uint32Range(7, 8).Draw(rt, "thread"), Name: "x",
				Domain: rapid.SampledFrom([]string{"", "d"}).Draw(rt, "domain"),
				Style:  ledger.RangeStyle(rapid.IntRange(0, 1).Draw(rt, "style")), Depth: rapid.IntRange(0, 3).Draw(rt,
					"depth"), Order: uint64(i),
				Begun: rapid.Int64Range(0, 50).Draw(rt, "begun"), Ended: rapid.Int64Range(0, 60).Draw(rt, "ended"),
			})
		}
		_, rows := drawPhases(t, all...)
		n := 0
		for _, row := range rows {
			n += strings.Count(row, "x ")
		}
		if n != len(all) {
			rt.Fatalf("%d slices of %d ranges: %v", n, len(all), rows)
		}
	})
}
