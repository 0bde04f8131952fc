// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"io"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/report/steps"
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
	show, stop := g.ShowProgress("expect")
	defer stop()
	o.onlyModel = true
	of := &replayOptions{BenchOptions: o.BenchOptions, Steps: o.Steps, Sweep: o.Sweep, Plot: o.Plot, Force: o.Force}
	player := &replayer{g: g, o: of, ix: ix, show: show.Set, play: play.Forecast}
	if o.Sweep != "" {
		return player.sweep(ctx)
	}
	r, err := player.oneWithGOAL(ctx, o.GOAL)
	if err != nil {
		return err
	}
	if r.Baseline, err = of.baseline.compareReport(r.Report()); err != nil {
		return err
	}
	if err := cli.WriteNamed("--plot", o.Plot, o.Force, r.WriteSVG); err != nil {
		return err
	}
	err = g.Write(r.Report(), func(w io.Writer) error { return r.WriteText(w, "") })
	return cmp.Or(err, of.baseline.judge())
}

// oneWithGOAL is one, and writes the messages of the job to a file if it is not "".
func (p *replayer) oneWithGOAL(ctx context.Context, file string) (r *steps.Result, err error) {
	if file == "" {
		return p.one(ctx)
	}
	err = cli.WriteFile("--goal", file, p.o.Force, 0o644, func(out io.Writer) error {
		p.goal = out
		r, err = p.one(ctx)
		return err
	})
	return r, err
}
