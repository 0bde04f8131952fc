// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
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
