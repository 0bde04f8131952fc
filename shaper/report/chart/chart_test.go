// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/report/chart"
)

func svg(t interface {
	Helper()
	Fatal(...any)
}, write func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	if err := write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }

// The picture has the labels, the ticks, a mark for each point, and the names beside the lines, in their colours.
func TestWriteSVG(t *testing.T) {
	c := chart.Chart{
		Title: "the <title>", X: "the size", Y: "the time",
		Ticks: []chart.Tick{{At: 1, Text: "1K"}, {At: 32, Text: "32K"}, {At: 1024, Text: "1M"}},
		Lines: []chart.Line{
			{Name: "one", Points: []chart.Point{{X: 1, Y: 3}, {X: 32, Y: 20}, {X: 1024, Y: 100}}},
			{Name: "empty"},
			{Name: "two", Points: []chart.Point{{X: 1, Y: 5}}},
		},
	}
	text := svg(t, c.WriteSVG)
	for want, times := range map[string]int{
		`<svg xmlns="http://www.w3.org/2000/svg" width="100%" viewBox=`: 1, "(prefers-color-scheme: dark)": 1,
		">the &lt;title&gt;</text>": 1, ">the size<": 1, ">the time<": 1, ">1K<": 1, ">1M<": 1, "<circle": 4,
		`class="name c0" dy="0.350em">one<`: 1, `class="name c2" dy="0.350em">two<`: 1, `class="line c0"`: 1,
		">10<": 1, ">100<": 1, ">0<": 0, // the scale is logarithmic
		">empty<": 0,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q %d times, want %d", want, n, times)
		}
	}
	if err := c.WriteSVG(full{}); err == nil || !strings.Contains(err.Error(), "write the plot") {
		t.Error(err)
	}
	if text := svg(t, (&chart.Chart{Title: "none"}).WriteSVG); !strings.Contains(text, "There are no values.") {
		t.Error(text)
	}
	shares := chart.Shares{Title: "parts", X: "% of 1s", Parts: []chart.Share{{Name: "one", Percent: 80}}}
	if text := svg(t, shares.WriteSVG); !strings.Contains(text, ">one<") || !strings.Contains(text, ">80.0 %<") ||
		!strings.Contains(text, `width="556.8"`) { // 80 % of the width without the margins
		t.Error(text)
	}
}

// Names of ticks are all written, however long they are.
func TestNames(t *testing.T) {
	c := chart.Chart{Title: "queues", Names: true, Lines: []chart.Line{{Name: "step"}}}
	for i, name := range []string{"fair", "lossless", "taildrop:1M", "taildrop:16M", "ecn:100K,400K", "a queue with a long name"} {
		c.Ticks = append(c.Ticks, chart.Tick{At: float64(i + 1), Text: name})
		c.Lines[0].Points = append(c.Lines[0].Points, chart.Point{X: float64(i + 1), Y: 5})
	}
	text := svg(t, c.WriteSVG)
	for _, tick := range c.Ticks {
		if !strings.Contains(text, ">"+tick.Text+"<") {
			t.Errorf("there is no %s", tick.Text)
		}
	}
}

// Whatever the lines are, no text covers another one or leaves the picture, at the width of a letter of wide fonts.
func TestTextsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := chart.Chart{
			Title: name(t, "title", 150), X: name(t, "x", 20), Y: name(t, "y", 20), Names: rapid.Bool().Draw(t, "names"),
		}
		xs := rapid.SliceOfNDistinct(rapid.Float64Range(1e-3, 1e9), 1, 30, rapid.ID).Draw(t, "xs")
		for _, x := range xs {
			c.Ticks = append(c.Ticks, chart.Tick{At: x, Text: name(t, "tick", 12)})
		}
		for range rapid.IntRange(0, 30).Draw(t, "lines") {
			l := chart.Line{Name: name(t, "name", 60)}
			for _, x := range xs[:rapid.IntRange(0, len(xs)).Draw(t, "points")] {
				l.Points = append(l.Points, chart.Point{X: x, Y: rapid.Float64Range(0, 1e7).Draw(t, "value")})
			}
			c.Lines = append(c.Lines, l)
		}
		apart(t, svg(t, c.WriteSVG))
	})
}

func TestTextsOfGroupsAreApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := chart.Scatter{Title: "times", X: "published, us", Y: "calculated, us", Guides: []chart.Guide{
			{Name: "equal", Factor: 1}, {Name: "25 % more or less", Factor: 1.25}}}
		for range rapid.IntRange(1, 16).Draw(t, "groups") {
			g := chart.Line{Name: name(t, "name", 40)}
			for range rapid.IntRange(1, 40).Draw(t, "points") {
				value := rapid.Float64Range(1, 1e5)
				g.Points = append(g.Points, chart.Point{X: value.Draw(t, "x"), Y: value.Draw(t, "y")})
			}
			s.Groups = append(s.Groups, g)
		}
		text := svg(t, s.WriteSVG)
		apart(t, text)
		for _, g := range s.Groups {
			if first := g.Name[:min(len(g.Name), 20)]; !strings.Contains(text, first) {
				t.Fatalf("group %s has no name", g.Name)
			}
		}
	})
}

func name(t *rapid.T, label string, most int) string {
	return rapid.StringMatching(fmt.Sprintf("[a-z0-9_]([a-z0-9_ -]{0,%d}[a-z0-9_])?", most-2)).Draw(t, label)
}

var (
	size    = regexp.MustCompile(`viewBox="0 0 (\S+) (\S+)"`)
	written = regexp.MustCompile(`<text x="(\S+)" y="(\S+)" class="([^"]*)" ?(?:text-anchor="(\w+)" ?)?(?:dy="(\S+)em")?>([^<]*)</text>`)
)

// apart checks the boxes of all texts.
func apart(t *rapid.T, picture string) {
	type box struct {
		left, right, base float64
		text              string
	}
	var width, height float64
	_, _ = fmt.Sscan(size.FindStringSubmatch(picture)[1], &width)
	_, _ = fmt.Sscan(size.FindStringSubmatch(picture)[2], &height)
	var boxes []box
	for _, m := range written.FindAllStringSubmatch(picture, -1) {
		var x, y float64
		_, _ = fmt.Sscan(m[1], &x)
		_, _ = fmt.Sscan(m[2], &y)
		wide := 0.6 * 18 * float64(len(m[6]))
		if m[5] != "" {
			var down float64
			_, _ = fmt.Sscan(m[5], &down)
			y += 18 * down
		}
		b := box{x, x + wide, y, m[6]}
		switch m[4] {
		case "middle":
			b.left, b.right = x-wide/2, x+wide/2
		case "end":
			b.left, b.right = x-wide, x
		}
		if b.left < 0 || b.right > width || y < 18 || y > height-4 {
			t.Fatalf("%q leaves the picture of %g, %g: %+v", b.text, width, height, b)
		}
		for _, o := range boxes {
			if o.left < b.right && b.left < o.right && max(o.base-b.base, b.base-o.base) < 18 {
				t.Fatalf("%q and %q overlap: %+v, %+v", o.text, b.text, o, b)
			}
		}
		boxes = append(boxes, b)
	}
	if len(boxes) != strings.Count(picture, "<text") {
		t.Fatal("not all texts were checked")
	}
}
