// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"math"
	"strings"
	"testing"
)

func TestFittedRows(t *testing.T) {
	for text, want := range map[string]FittedRows{
		"x.csv":             {Table: "x.csv"},
		"x.csv up to 32K":   {"x.csv", 32 << 10},
		"a b.log up to 17":  {"a b.log", 17},
		" x.csv  up to 1M ": {"x.csv", 1 << 20},
	} {
		got, err := ParseFittedRows(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseFittedRows(got.String()); err != nil || again != want {
			t.Errorf("%q: again %+v, %v", got, again, err)
		}
	}
	for text, want := range map[string]string{
		"":              "must be the name of a table's file",
		" up to 32K":    "must be the name of a table's file",
		"/data/x.csv":   "without its folder",
		"x\x01.csv":     "must be the name of a table's file",
		"x.csv up to 0": "must be above 0",
		"x.csv up to q": "q",
	} {
		if _, err := ParseFittedRows(text); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The tables of a kind of GPU count only where its times are used.
func TestFittedUpTo(t *testing.T) {
	f := Fabric{FittedTo: []FittedRows{{"link.csv", 0}}, GPU: &GPU{Time: &GPUTime{
		FittedTo: []FittedRows{{"all.csv", 0}, {"some.csv", 8}, {"some.csv", 64}, {"some.csv", 16}}}}}
	for _, tc := range []struct {
		table    string
		nodeTime bool
		want     int64
	}{{"link.csv", false, math.MaxInt64}, {"all.csv", true, math.MaxInt64}, {"some.csv", true, 64}, {"none.csv", true, 0},
		{"all.csv", false, 0}} {
		if f.NodeTime = tc.nodeTime; f.FittedUpTo(tc.table) != tc.want {
			t.Errorf("%s, node time %v: up to %d, want %d", tc.table, tc.nodeTime, f.FittedUpTo(tc.table), tc.want)
		}
	}
	l40s, err := BuiltInGPU("l40s")
	if err != nil {
		t.Fatal(err)
	}
	if f := (Fabric{GPU: l40s, NodeTime: true}); f.FittedUpTo("l40s_2gpu_1node_ar.csv") != math.MaxInt64 ||
		f.FittedUpTo("l40s_4gpu_1node_ar.csv") != 0 {
		t.Errorf("l40s is fitted to %v", l40s.Time.FittedTo)
	}
	t4, err := Profile("t4-efa")
	if err != nil || t4.FittedUpTo("t4_1gpu_2node_efa.csv") != math.MaxInt64 {
		t.Errorf("t4-efa is fitted to %v, %v", t4.FittedTo, err)
	}
}
