// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/report/chart"
)

// The picture has a mark of the group's colour for each point, the guides, and the powers of ten around all values.
func TestScatter(t *testing.T) {
	s := chart.Scatter{
		Title: "the title", X: "measured", Y: "expected",
		Groups: []chart.Line{
			{Name: "one", Points: []chart.Point{{X: 20, Y: 30}, {X: 300, Y: 400}}},
			{Name: "empty"},
			{Name: "two", Points: []chart.Point{{X: 50, Y: 5000}}},
		},
		Guides: []chart.Guide{{Name: "equal", Factor: 1}, {Factor: 1.25, Dashed: true}},
	}
	var out bytes.Buffer
	if err := s.WriteSVG(&out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for want, least := range map[string]int{
		"<svg": 1, "the title": 2, ">measured<": 1, ">expected<": 1, ">equal<": 1, `class="name c0" text-anchor="middle" dy="0.350em">one<`: 1,
		`class="name c2" text-anchor="middle" dy="0.350em">two<`: 1, ">10<": 2, ">10000<": 2, `class="guide dashed"`: 1,
		`class="mark c0"`: 2, `class="mark c2"`: 1,
	} {
		if n := strings.Count(text, want); n != least {
			t.Errorf("%q %d times, want %d", want, n, least)
		}
	}
	for _, no := range []string{">empty<", ">1<", ">100000<"} {
		if strings.Contains(text, no) {
			t.Errorf("the picture has %q", no)
		}
	}
	if err := s.WriteSVG(full{}); err == nil || !strings.Contains(err.Error(), "write the plot") {
		t.Error(err)
	}
	for _, bad := range []chart.Scatter{{Title: "none"}, {Title: "none", Groups: []chart.Line{{Name: "empty"}}}} {
		if err := bad.WriteSVG(&out); err == nil || err.Error() != "draw none: there are no points" {
			t.Error(err)
		}
	}
	same := chart.Scatter{Groups: []chart.Line{{Points: []chart.Point{{X: 10, Y: 10}}}}}
	if err := same.WriteSVG(&out); err != nil {
		t.Error(err)
	}
}
