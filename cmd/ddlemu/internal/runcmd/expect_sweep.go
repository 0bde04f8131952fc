// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/forecast"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// runSweep calculates the times of a collective for each value of a parameter.
func (o *expectOptions) runSweep(ctx context.Context, g *cli.Global, b bench.Config, decideUpTo int64) error {
	v, reports, stopped := overValues(ctx, o.Sweep, o.Flags,
		func(fs *pflag.FlagSet, _ string) (trial[*forecast.Report], error) {
			at := *o
			at.Flags = fs
			for _, name := range []string{"ranks", "seeds"} { // whether they were given counts, too
				if f := o.Flags.Lookup(name); f.Changed {
					fs.String(name, "", "")
					if err := fs.Set(name, f.Value.String()); err != nil {
						return trial[*forecast.Report]{}, err
					}
				}
			}
			return trial[*forecast.Report]{play: func() (*forecast.Report, error) {
				return at.forecast(ctx, g, &expectTable{bench: b}, decideUpTo)
			}, end: func() {}}, nil
		})
	if len(reports) == 0 {
		return stopped
	}
	s := forecast.NewSweep(v, b.Collective.String(), reports)
	return cmp.Or(g.Print(s.Report(), func(w io.Writer) { printSweep(w, s, b.Collective.String()) }), stopped)
}

// printSweep prints a row for each size and value.
func printSweep(w io.Writer, s *sweep.Sweep[*forecast.Report], collective string) {
	first := s.Results[0]
	fmt.Fprintf(w, "%s over %s: NCCL %s, %s on %s of %s\n", collective, s.Param, first.NCCL,
		units.Count(first.Ranks, "rank"), units.Count(first.Nodes, "node"), first.Profile)
	if in := first.Fabric.Over(s.Param, s.Values.String()); in.Text != "" {
		fmt.Fprintf(w, "fabric: %s\n", in.Text)
	}
	if first.GPUTime != "" {
		fmt.Fprintf(w, "GPU time: %s\n", first.GPUTime)
	}
	fmt.Fprintln(w)
	t := cli.NewTable(w, "size ", s.Param+" ", "algo", "proto", "channels ", "expected us ", "busbw GB/s ", "speedup ",
		"")
	for row := range first.Rows {
		for i, r := range s.Results {
			at := r.Rows[row]
			speedup := "-"
			if base := first.Rows[row].ExpectedUS; base != nil && value(at.ExpectedUS) > 0 {
				speedup = fmt.Sprintf("%.2f", *base / *at.ExpectedUS)
			}
			t.AppendRow(table.Row{at.Size, s.List[i].Text, at.Algo, at.Proto, channelsText(at.Channels),
				cli.Us(value(at.ExpectedUS)), known(at.BusBW), speedup, remark(at)})
		}
	}
	t.Render()
	fmt.Fprintln(w)
	lines.Print(w, "%s\n", s.Lines())
	lines.Print(w, "\n%s\n", printer.NotInText(first.NotIn))
	lines.Print(w, "\nnote: %s\n", first.Notes)
	if word := s.Word(); word != "" {
		fmt.Fprintf(w, "\nverdict: %s: it was interrupted, and has %d of %d values\n", word, len(s.Results), len(s.List))
	}
}
