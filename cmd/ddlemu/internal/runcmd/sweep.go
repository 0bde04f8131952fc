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
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/forecast"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// sweepUsage is the help of --sweep.
const sweepUsage = "%s for several values of a parameter of all links, such as `bw=10G..800G`, lat=1us,10us or " +
	"loss=1e-6..1%%"

// noFabric is why a sweep is not on a fabric that is up.
const noFabric = "a sweep makes fabrics of its own, of a --profile or --file"

// trial is one of several things that are compared, each on a fabric of its own.
type trial[R any] struct {
	name string // as the user gave it
	play func() (R, error)
	end  func() // gives back what play needs
}

// trials are played one after the other, and ended together.
type trials[R any] []trial[R]

func (all trials[R]) end() {
	for _, t := range all {
		t.end()
	}
}

// play returns the results of all, or with an error the results before it.
func (all trials[R]) play() (results []R, err error) {
	for _, t := range all {
		r, err := t.play()
		if err != nil {
			return results, fmt.Errorf("%s: %w", t.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// overValues plays for each value of --sweep, which text gives. prepare makes a trial of the user's flags with a value;
// which says which one it is, for the progress. An interruption comes with the results of the values before it, if
// there are some; any other error has no results.
func overValues[R any](ctx context.Context, text string, given *pflag.FlagSet,
	prepare func(fs *pflag.FlagSet, which string) (trial[R], error)) (*sweep.Values, []R, error) {
	v, err := sweep.Parse(text)
	if err != nil {
		return nil, nil, cli.BadInput("--sweep %s: %w", text, err)
	}
	var all trials[R]
	defer func() { all.end() }()
	for i, value := range v.List {
		fs, err := with(given, func(flag string) bool { return flag == v.Param })
		if err == nil {
			err = flags.Set(fs, v.Param, value.Text)
		}
		if err != nil {
			return nil, nil, cli.BadInput("--sweep %s=%s: %w", v.Param, value.Text, err)
		}
		name := fmt.Sprintf("--sweep %s at %s", text, value.Text)
		t, err := prepare(fs, fmt.Sprintf("%s %s, %d of %d", v.Param, value.Text, i+1, len(v.List)))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		t.name = name
		all = append(all, t)
	}
	results, err := all.play()
	if ctx.Err() == nil && err != nil {
		results = nil
	}
	return v, results, err
}

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
