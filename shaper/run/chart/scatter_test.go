// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/run/chart"
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
		"<svg": 1, "the title": 1, ">measured<": 1, ">expected<": 1, ">one<": 1, ">two<": 1, ">equal<": 1,
		">10<": 2, ">10000<": 2, "stroke-dasharray": 1,
		"#0072B2": 3, // the first colour: two points and the legend's
		"#009E73": 2, // the third one
	} {
		if n := strings.Count(text, want); n < least {
			t.Errorf("%q %d times, want %d or more", want, n, least)
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
