// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/run/chart"
)

// The picture has the labels, the names, the ticks and a mark for each point.
func TestWriteSVG(t *testing.T) {
	c := chart.Chart{
		Title: "the title", X: "the size", Y: "the time", LogY: true, Legend: chart.TopLeft,
		Ticks: []chart.Tick{{At: 1, Text: "1K"}, {At: 1024, Text: "1M"}},
		Lines: []chart.Line{
			{Name: "one", Points: []chart.Point{{X: 1, Y: 3}, {X: 32, Y: 20}, {X: 1024, Y: 100}}},
			{Name: "empty"},
			{Name: "two", Points: []chart.Point{{X: 1, Y: 5}}},
		},
	}
	var out bytes.Buffer
	if err := c.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"<svg", "the title", "the size", "the time", ">1K<", ">1M<", ">one<", ">two<"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(text, ">empty<") {
		t.Error("a line without points is in the legend")
	}
	if err := c.WriteSVG(full{}); err == nil || !strings.Contains(err.Error(), "write the plot") {
		t.Error(err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }
