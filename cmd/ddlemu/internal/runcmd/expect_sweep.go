// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/jedib0t/go-pretty/v6/table"

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
	v, err := parseSweep(g, o.Sweep)
	if err != nil {
		return err
	}
	s := &forecast.Sweep{Values: v, Collective: b.Collective.String()}
	var stopped error
	for i := range v.List {
		r, err := o.at(ctx, g, v, i, b, decideUpTo)
		if err != nil && (ctx.Err() == nil || len(s.Reports) == 0) {
			return err
		}
		if stopped = err; err != nil {
			break
		}
		s.Reports = append(s.Reports, r)
	}
	return cmp.Or(g.Print(s.Report(), func(w io.Writer) { printSweep(w, s) }), stopped)
}

// at calculates the times at one value.
func (o *expectOptions) at(ctx context.Context, g *cli.Global, v *sweep.Values, i int, b bench.Config,
	decideUpTo int64) (*forecast.Report, error) {
	fs, err := sweepFlags(o.Flags, v, i)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"ranks", "seeds"} { // whether they were given counts, too
		if f := o.Flags.Lookup(name); f.Changed {
			fs.String(name, "", "")
			if err := fs.Set(name, f.Value.String()); err != nil {
				return nil, err
			}
		}
	}
	at := *o
	at.Flags = fs
	r, err := at.forecast(ctx, g, &expectTable{bench: b}, decideUpTo)
	if err != nil {
		err = fmt.Errorf("--sweep %s at %s: %w", o.Sweep, v.List[i].Text, err)
	}
	return r, err
}

// printSweep prints a row for each size and value.
func printSweep(w io.Writer, s *forecast.Sweep) {
	first := s.Reports[0]
	fmt.Fprintf(w, "%s over %s: NCCL %s, %s on %s of %s\n", s.Collective, s.Param, first.NCCL,
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
		for i, r := range s.Reports {
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
	lines.Print(w, "%s\n", sweep.ChangeLines(s.Changes()))
	lines.Print(w, "%s\n", s.Reversals())
	lines.Print(w, "%s\n", s.Conclusions())
	lines.Print(w, "\n%s\n", printer.NotInText(first.NotIn))
	lines.Print(w, "\nnote: %s\n", first.Notes)
	if report := s.Report(); report.Verdict != "" {
		fmt.Fprintf(w, "\nverdict: %s: it was interrupted, and has %d of %d values\n", report.Verdict, len(s.Reports),
			len(s.List))
	}
}
