// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/shaper/report/score"
	"github.com/ddlemu/ddlemu/shaper/run/validate"
)

// --intervals writes what the program reads, in the place of the file, and nothing if there are too few tables.
func TestWriteIntervals(t *testing.T) {
	path := filepath.Join(t.TempDir(), "intervals.json")
	b := &score.Board{}
	if err := writeIntervals(path, b); err == nil || !strings.Contains(err.Error(), "0 tables are too few") {
		t.Errorf("without tables: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("without tables there is a file")
	}
	for range 4 {
		b.Tables = append(b.Tables, score.Table{Report: &validate.Report{Class: intervals.Class{Net: intervals.NoNet},
			Lines: []validate.Line{{Size: 8, Error: 5}, {Size: 16, Error: -5}}}})
	}
	for range 2 {
		if err := writeIntervals(path, b); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	var all []intervals.Interval
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if want := score.Intervals(b); err != nil || len(all) == 0 || !slices.Equal(all, want) {
		t.Errorf("%v: %+v, want %+v", err, all, want)
	}
}
