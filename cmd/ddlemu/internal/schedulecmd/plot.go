// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/chart"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/perform"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/compare"
)

// plotOption is the file of a plot.
type plotOption struct {
	Plot  string
	Force bool
}

func (o *plotOption) AddFlags(fs *pflag.FlagSet, what string) {
	fs.StringVar(&o.Plot, "plot", "", "`file` for a plot of "+what+", as SVG")
	fs.BoolVar(&o.Force, "force", false, "replace the file of --plot")
}

func (o *plotOption) write(c *chart.Chart) error {
	return cli.WriteNamed("--plot", o.Plot, o.Force, c.WriteSVG)
}

func sizeTick(size int64) chart.Tick {
	return chart.Tick{At: float64(size), Text: units.Size(size).String()}
}

// boundLine is the name of the line of lower bounds.
const boundLine = "bound"

// tableChart draws the times of the schedules over the sizes.
func tableChart(c *compare.Table) *chart.Chart {
	out := &chart.Chart{Title: fmt.Sprintf("%s on %s", c.Coll, c.Fabric), X: "size", Y: "us"}
	bound := chart.Line{Name: boundLine}
	lines := make([]chart.Line, len(c.Schedules))
	for _, row := range c.Rows {
		out.Ticks = append(out.Ticks, sizeTick(row.Size))
		for i, t := range row.Times {
			if lines[i].Name = c.Schedules[i]; t != nil {
				lines[i].Points = append(lines[i].Points, chart.Point{X: float64(row.Size), Y: *t})
			}
		}
		if row.Bound > 0 {
			bound.Points = append(bound.Points, chart.Point{X: float64(row.Size), Y: row.Bound})
		}
	}
	out.Lines = append(lines, bound)
	return out
}

// gridChart draws the bus bandwidth over the grain, a line for each k.
func gridChart(r *compare.Grid) *chart.Chart {
	out := &chart.Chart{Title: fmt.Sprintf("%s: %s of %s on %s", r.Kind, r.Coll, units.Size(r.Size), r.Fabric),
		X: "grain", Y: "bus bandwidth, GB/s"}
	busbw := func(us float64) float64 { return float64(r.Size) * r.BusFactor / us / 1e3 }
	bound := chart.Line{Name: boundLine}
	for _, grain := range r.Grains {
		out.Ticks = append(out.Ticks, sizeTick(grain))
		if r.Bound > 0 {
			bound.Points = append(bound.Points, chart.Point{X: float64(grain), Y: busbw(r.Bound)})
		}
	}
	for n, k := range r.Ks {
		line := chart.Line{Name: fmt.Sprintf("k %d", k)}
		for i, grain := range r.Grains {
			line.Points = append(line.Points, chart.Point{X: float64(grain), Y: busbw(r.Times[i][n])})
		}
		out.Lines = append(out.Lines, line)
	}
	out.Lines = append(out.Lines, bound)
	return out
}

// runChart draws the bus bandwidth of the rows, and the bandwidth of the lower bound.
func runChart(s *schedule.Schedule, r *perform.Report) *chart.Chart {
	out := &chart.Chart{Title: fmt.Sprintf("%s: %s on %s", nameOf(r.Schedule), r.Coll, r.Fabric),
		X: "size", Y: "bus bandwidth, GB/s"}
	bound := chart.Line{Name: boundLine}
	for _, inPlace := range s.Variants() {
		line := chart.Line{Name: bench.Place(inPlace)}
		bound.Points = nil
		for i := range r.Rows {
			row := &r.Rows[i]
			if row.Place != line.Name {
				continue
			}
			line.Points = append(line.Points, chart.Point{X: float64(row.Size), Y: row.Busbw})
			if row.Bound > 0 {
				bound.Points = append(bound.Points,
					chart.Point{X: float64(row.Size), Y: row.Algbw(row.Bound) * s.BusFactor() / 1e9})
			}
		}
		out.Lines = append(out.Lines, line)
	}
	for i := range r.Rows {
		if t := sizeTick(int64(r.Rows[i].Size)); i == 0 || r.Rows[i].Size != r.Rows[i-1].Size {
			out.Ticks = append(out.Ticks, t)
		}
	}
	out.Lines = append(out.Lines, bound)
	return out
}
