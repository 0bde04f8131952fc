// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	got, err := parse("ring 8 12.5\nflow 3 1e9\n")
	if err != nil || len(got) != 2 || got[0] != (figure{"ring", 8, 12.5}) || got[1].value != 1e9 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "ring 8", "ring x 1", "ring 8 fast"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// The ratio is calculated per round: noise that affects both sides of a round cancels.
func TestRatio(t *testing.T) {
	s := samples{"a": {10, 2, 30}, "b": {5, 1, 10}}
	if got := s.ratio("a", "b"); got != 2 {
		t.Errorf("ratio %v, want 2", got)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v, want 2.5", got)
	}
}

func TestReplace(t *testing.T) {
	page := "# Title\n" + markBegin + "\nold\n" + markEnd + "\nafter\n"
	got, err := replace(page, "new\n")
	if err != nil || strings.Contains(got, "old") || !strings.HasSuffix(got, markEnd+"\nafter\n") ||
		!strings.Contains(got, "new\n") {
		t.Errorf("%q, %v", got, err)
	}
	if again, err := replace(got, "new\n"); err != nil || again != got {
		t.Errorf("a second time gives %q, %v", again, err)
	}
	if _, err := replace("no marks", "new"); err == nil {
		t.Error("a page without marks was taken")
	}
}
