// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/shaper/report/chart"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// Sweep is a workload on fabrics that differ in one parameter of all links.
type Sweep struct{ *sweep.Sweep[*Result] }

// NewSweep is the sweep of the results of the first values.
func NewSweep(v *sweep.Values, results []*Result) *Sweep {
	return &Sweep{sweep.New(v, results, (*Result).point)}
}

// point is what a result says to a sweep: its calls by what they are, and its mean step. Calls of communicators of
// different names are apart, if there are some.
func (r *Result) point() sweep.Point {
	p := sweep.Point{Result: r.Report(),
		Timed: []sweep.Call{{What: "a step", Time: r.Mean().Time, Exposed: new(r.exposed())}}}
	if !r.Forecast {
		p.Word = r.Verdict.Word
	}
	comms := map[string]bool{}
	for i := range r.Calls {
		comms[r.Calls[i].Comm] = true
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		what := fmt.Sprintf("%s of %d bytes", c.Func, c.Size)
		if len(comms) > 1 {
			what += fmt.Sprintf(" on %s of %d", c.Comm, c.Ranks)
		}
		p.Calls = append(p.Calls, sweep.Call{What: what, Choice: strings.TrimSpace(c.Algo + " " + c.Proto), Time: c.Mean})
	}
	return p
}

// exposed is the part of a step in percent that computation does not hide.
func (r *Result) exposed() float64 {
	m := r.Mean()
	return 100 * float64(m.Exposed) / float64(max(m.Time, 1))
}

// WriteText writes a table over the values.
func (s *Sweep) WriteText(w io.Writer) error {
	first := s.Results[0]
	t := &text{Result: first}
	head := &first.Facts.Workload.Workload.Head
	t.line("# ddlemu %s %s over %s: NCCL %s, CUDA %s", first.command(), cmp.Or(head.Name, "workload"), s.Param,
		first.Facts.NCCL, first.Facts.CUDA)
	t.line("# profile %s  ranks %d  nodes %d  steps %d; times are means over the steps", first.Facts.Fabric.Config.Name,
		head.Ranks, first.nodes(), len(first.Steps))
	t.inForce(first.InForce.Over(s.Param, s.Values.String()))
	t.sourceNotes()
	t.line("#")
	t.line("# %10s  %10s  %10s  %10s  %10s  %10s  %8s  %s", s.Param, "step", "compute", "exposed", "hidden", "exposed",
		"speedup", t.unlessForecast("verdict"))
	t.line("# %10s  %10s  %10s  %10s  %10s  %10s  %8s", "", "(ms)", "(ms)", "(ms)", "(ms)", "(%)", "")
	base := first.Mean().Time
	for i, r := range s.Results {
		m := r.Mean()
		t.line("%12s  %10s  %10s  %10s  %10s  %10.1f  %8.2f  %s", s.List[i].Text, milliseconds(m.Time),
			milliseconds(m.Compute), milliseconds(m.Exposed), milliseconds(m.Hidden),
			r.exposed(), float64(base)/float64(max(m.Time, 1)), t.unlessForecast(r.Verdict.Word))
	}
	t.line("#")
	lines.Print(&t.b, "# %s\n", s.Lines())
	if len(s.Results) < len(s.List) {
		t.line("# interrupted: %d of %d values played", len(s.Results), len(s.List))
	}
	lines.Print(&t.b, "# %s\n", printer.NotInText(first.NotIn))
	if word := s.Word(); word != "" {
		t.line("verdict: %s", word)
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// unlessForecast is text, or "" for a forecast, which has no verdict.
func (t *text) unlessForecast(text string) string {
	if t.Forecast {
		return ""
	}
	return text
}

// WriteSVG draws the time of a step, and of its computation, over the parameter.
func (s *Sweep) WriteSVG(w io.Writer) error {
	c := chart.Chart{
		Title: fmt.Sprintf("%s: time of a step", s.Results[0].Facts.Workload.Workload.Head.Name),
		X:     cmp.Or(map[string]string{"bw": "bandwidth", "lat": "latency"}[s.Param], s.Param), Y: "ms",
		Names: !s.IsScale(),
	}
	step, compute := chart.Line{Name: "step"}, chart.Line{Name: "computation"}
	for i, r := range s.Results {
		m, x := r.Mean(), s.At(i)
		c.Ticks = append(c.Ticks, chart.Tick{At: x, Text: s.List[i].Text})
		step.Points = append(step.Points, chart.Point{X: x, Y: m.Time.Seconds() * 1000})
		compute.Points = append(compute.Points, chart.Point{X: x, Y: m.Compute.Seconds() * 1000})
	}
	c.Lines = []chart.Line{step, compute}
	return c.WriteSVG(w)
}

// WriteSVG draws the composition of the steps: the share of computation and of each kind of communication that none
// hides.
func (r *Result) WriteSVG(w io.Writer) error {
	if len(r.Composition) == 0 {
		return errors.New("draw the composition: no step was played")
	}
	c := chart.Shares{
		Title: cmp.Or(r.Facts.Workload.Workload.Head.Name, "workload") + ": parts of the steps",
		X:     "% of " + r.Time.Round(time.Microsecond).String(),
	}
	for i := range r.Composition {
		part := &r.Composition[i]
		percent := func(d time.Duration) float64 { return 100 * float64(d) / float64(max(r.Time, 1)) }
		if part.Time > part.Waiting {
			c.Parts = append(c.Parts, chart.Share{Name: part.What, Percent: percent(part.Time - part.Waiting),
				Differs: part.What == play.Computation})
		}
		if part.Waiting > 0 {
			c.Parts = append(c.Parts, chart.Share{Name: part.What + ", waiting", Percent: percent(part.Waiting)})
		}
	}
	return c.WriteSVG(w)
}
