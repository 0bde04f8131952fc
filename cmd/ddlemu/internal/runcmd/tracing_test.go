// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"os"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// A run in which no rank took part leaves the folder for its trace empty, so that it can be tried again. What was
// recorded keeps its verdict.
func TestOutcomeBesideTheLedgers(t *testing.T) {
	for _, tc := range []struct {
		name             string
		noRank, recorded bool
		files            int
	}{
		{"no rank", true, false, 0},
		{"no rank, and a ledger", true, true, 2},
		{"a rank without a ledger", false, false, 1},
		{"ranks", false, true, 2},
	} {
		dir := t.TempDir()
		if tc.recorded {
			if err := os.WriteFile(ledger.Path(dir, 0, 1), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeOutcome(dir, verdict.Verdict{NoRank: tc.noRank}); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != tc.files {
			t.Errorf("%s: %d files, want %d, %v", tc.name, len(entries), tc.files, err)
		}
	}
	if err := writeOutcome("", verdict.Verdict{}); err != nil {
		t.Errorf("without a trace: %v", err)
	}
}

// A stall is told once, and again if something went on in between.
func TestStallWatch(t *testing.T) {
	begin := time.Now()
	w := stallWatch{after: 3 * time.Second, since: begin}
	for second, step := range []struct {
		records uint64
		want    bool
	}{
		{0, false}, {0, false}, {0, false}, {0, false}, {0, false}, // no rank has joined
		{5, false}, {6, false}, {6, false}, {6, false}, {6, true}, {6, false}, {6, false},
		{7, false}, {7, false}, {7, false}, {7, true}, {7, false},
	} {
		if got := w.update(step.records, begin.Add(time.Duration(second)*time.Second)); got != step.want {
			t.Errorf("second %d, %d records: %v", second, step.records, got)
		}
	}
}
