// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ddlemu/ddlemu/shaper/report/chart"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

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
