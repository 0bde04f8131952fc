// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"io"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/report/steps"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// runExpectWorkload calculates the times of a workload.
func runExpectWorkload(ctx context.Context, g *cli.Global, o *expectOptions) error {
	if err := o.baseline.load(baseline.ExpectWorkload); err != nil {
		return err
	}
	ix, err := loadWorkload(ctx, g, o.Workload, o.ranksWanted())
	if err != nil {
		return err
	}
	o.Ranks, o.onlyModel = ix.Workload.Head.Ranks, true
	if o.Sweep != "" {
		show, stop := g.ShowProgress("expect")
		defer stop()
		of := &replayOptions{BenchOptions: o.BenchOptions, Steps: o.Steps, Sweep: o.Sweep, Plot: o.Plot, Force: o.Force}
		return (&replayer{g: g, o: of, ix: ix, show: show.Set, play: play.Forecast}).sweep(ctx)
	}
	e, err := o.setup(g, bench.Config{Ranks: o.Ranks, LogDir: o.LogDir, Stderr: g.Stderr})
	if err != nil {
		return err
	}
	defer e.Dir.Close()
	if err := o.baseline.checkWorkload(&e, ix); err != nil {
		return err
	}
	show, stop := g.ShowProgress("expect")
	defer stop()
	e.Progress = show.Set
	r, err := o.forecastWorkload(ctx, play.Options{On: e, Workload: ix, Steps: o.Steps, Interval: true})
	if err != nil {
		return err
	}
	if r.Baseline, err = o.baseline.compareReport(r.Report()); err != nil {
		return err
	}
	if err := cli.WriteNamed("--plot", o.Plot, o.Force, r.WriteSVG); err != nil {
		return err
	}
	err = g.Write(r.Report(), func(w io.Writer) error { return r.WriteText(w, "") })
	return cmp.Or(err, o.baseline.judge())
}

// forecastWorkload calculates the times, and writes the messages if they are wanted.
func (o *expectOptions) forecastWorkload(ctx context.Context, of play.Options) (r *steps.Result, err error) {
	if o.GOAL == "" {
		return steps.Of(play.Forecast(ctx, of))
	}
	err = cli.WriteFile("--goal", o.GOAL, o.Force, 0o644, func(out io.Writer) error {
		of.GOAL = out
		r, err = steps.Of(play.Forecast(ctx, of))
		return err
	})
	return r, err
}
