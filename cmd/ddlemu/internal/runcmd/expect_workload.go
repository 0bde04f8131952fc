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

// ofCollective are the flags of expect that are for a collective.
var ofCollective = []string{"minbytes", "maxbytes", "stepfactor", "stepbytes", "datatype", "op", "root", "iters", "log",
	"strict", "decide-up-to", "why"}

// runExpectWorkload calculates the times of a workload.
func runExpectWorkload(ctx context.Context, g *cli.Global, o *expectOptions) error {
	for _, name := range ofCollective {
		if o.Flags.Changed(name) {
			return cli.BadInput("--%s: is not for --workload, which has the ranks and the calls", name)
		}
	}
	if o.Flags.Changed("steps") && o.Steps < 1 {
		return cli.BadInput("--steps %d: must be at least 1", o.Steps)
	}
	if err := cmp.Or(cli.CheckNamed("--plot", o.Plot, o.Force), cli.CheckNamed("--goal", o.GOAL, o.Force)); err != nil {
		return err
	}
	if o.baseline.path != "" && o.Sweep != "" {
		return cli.BadInput("--baseline: is for the times on one fabric: leave out --sweep")
	}
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
	if g.JSON {
		err = g.PrintJSON(r.Report())
	} else {
		err = r.WriteText(g.Stdout, "")
	}
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
