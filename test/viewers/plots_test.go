// SPDX-License-Identifier: Apache-2.0

package viewers

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/ddlemu/ddlemu/shaper/report/chart"
)

// The plots of commands can be read on narrow and wide, light and dark pages, and are as wide as these.
func TestPlotsInChromium(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name+".svg") }
	workload := filepath.Join(dir, "w.jsonl")
	ddlemu(t, "workload", "make", "ddp", "--model", "resnet50", "--ranks", "4", "--compute", "10ms", "--steps", "2", "-o",
		workload)
	ddlemu(t, "schedule", "compare", "ring:k=4", "allpairs", "tree", "double-binary", "--coll", "all_reduce", "--gpus",
		"4", "--profile", "ndr400", "-b", "1K", "-e", "64M", "-f", "4", "--plot", file("compare"))
	ddlemu(t, "schedule", "sweep", "allpairs", "--gpus", "4", "--profile", "dgx-a100-nvlink", "--size", "16M", "--plot",
		file("grain"))
	ddlemu(t, "expect", "--workload", workload, "--profile", "eth10", "--plot", file("parts"))
	for name, write := range map[string]func(io.Writer) error{
		"lines": manyLines().WriteSVG, "names": fewNames().WriteSVG, "groups": manyGroups().WriteSVG,
	} {
		f, err := os.Create(file(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := write(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	b := start(t)
	for name, want := range map[string]int{"compare": 5, "grain": 5, "parts": 0, "lines": 12, "names": 2, "groups": 13} {
		b.do(chromedp.Navigate("file://" + file(name)))
		if got := eval[int](b, `new Set([...document.querySelectorAll(".name")].map((n) => n.classList[1] + n.getAttribute("y"))).size`); got != want {
			t.Errorf("%s: %d lines and groups have a name, want %d", name, got, want)
		}
		b.looks("plot " + name)
		if wide := eval[float64](b, `document.querySelector(".back").getBoundingClientRect().width`); math.Round(wide) != 1600 {
			t.Errorf("%s is %g pixels wide on a page of 1600", name, wide)
		}
		if got := eval[string](b, "getComputedStyle(document.documentElement).backgroundColor"); got != "rgb(18, 24, 28)" {
			t.Errorf("%s: the background of the dark page is %s", name, got)
		}
	}
}

// manyLines are lines that end near each other, some with long names and some at smaller sizes.
func manyLines() *chart.Chart {
	c := &chart.Chart{Title: "A plot whose title has more words than fit on one line of a narrow page", X: "size", Y: "us"}
	for n := range 21 {
		c.Ticks = append(c.Ticks, chart.Tick{At: math.Exp2(float64(10 + n)), Text: fmt.Sprintf("%d%c", 1<<(n%10), "KMG"[n/10])})
	}
	for k := range 12 {
		l := chart.Line{Name: fmt.Sprintf("k %d", k)}
		if k%3 == 0 {
			l.Name = fmt.Sprintf("hierarchical_allreduce_of_%d_steps.xml", k)
		}
		for _, tick := range c.Ticks[:len(c.Ticks)-k%4*3] {
			l.Points = append(l.Points, chart.Point{X: tick.At, Y: 4 + float64(k) + tick.At/2e5})
		}
		c.Lines = append(c.Lines, l)
	}
	return c
}

// fewNames are values without an order.
func fewNames() *chart.Chart {
	c := &chart.Chart{Title: "ddp: time of a step", X: "queue", Y: "ms", Names: true}
	step, compute := chart.Line{Name: "step"}, chart.Line{Name: "computation"}
	for i, name := range []string{"fair", "lossless", "taildrop:1M", "taildrop:16M", "fair:64K,ecn:100K"} {
		x := float64(i + 1)
		c.Ticks = append(c.Ticks, chart.Tick{At: x, Text: name})
		step.Points = append(step.Points, chart.Point{X: x, Y: 120 - 3*x})
		compute.Points = append(compute.Points, chart.Point{X: x, Y: 100})
	}
	c.Lines = []chart.Line{step, compute}
	return c
}

// manyGroups are points near a diagonal.
func manyGroups() *chart.Scatter {
	s := &chart.Scatter{Title: "Published and calculated times", X: "published, us", Y: "calculated, us", Guides: []chart.Guide{
		{Name: "equal", Factor: 1}, {Name: "25 % more or less", Factor: 1.25, Dashed: true}, {Factor: 0.75, Dashed: true}}}
	for i := range 11 {
		g := chart.Line{Name: fmt.Sprintf("gpu-kind-%d", i)}
		for k := range 60 {
			x := math.Pow(10, 1+float64((k*7+i*13)%60)/15)
			g.Points = append(g.Points, chart.Point{X: x, Y: x * math.Exp(0.3*math.Sin(float64(k*i+k)))})
		}
		s.Groups = append(s.Groups, g)
	}
	return s
}
