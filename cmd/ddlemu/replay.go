// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/replay"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
)

// replayOptions are the flags of replay: those for the fabric are the bench's.
type replayOptions struct {
	benchOptions
	Steps   int
	NoCheck bool
}

// AddFlags adds the flags to fs.
func (o *replayOptions) AddFlags(g *global, fs *pflag.FlagSet) {
	o.addOnFlags(fs, "f")
	fs.StringVar(&g.Fabric, "fabric", "", "`name` of a fabric that is up, instead of a new one")
	fs.IntVar(&o.Steps, "steps", 0, "`number` of steps to play: the file from its beginning, again and again (default: those of the file)")
	fs.BoolVar(&o.NoCheck, "no-check", false, "do not compare the values that calls of NCCL give")
	fs.BoolVar(&o.Strict, "strict", false, "exit with status 3 if the verdict is INVALID, also because something could not be checked")
	g.addJSONFlag(fs)
	g.addVerboseFlag(fs)
	fs.StringVar(&o.Trace, "trace", "", traceUsage)
	fs.DurationVar(&o.Budget, "budget", 0, "real `time` that the command may take: it plays fewer steps (default: no limit)")
	g.addQuietFlag(fs)
	fs.StringVar(&o.LogDir, "log-dir", "", "`folder` for NCCL's logs, the ranks' programs and times, which are then kept")
}

func newReplayCommand(g *global) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay WORKLOAD",
		Short: "Play a recorded or made job with real NCCL on an emulated fabric",
		Long: `Plays a workload (docs/workloads.md) on an emulated fabric. Each collective, send and
receive is a call of real NCCL on the stream that the workload names; computation is time
in which the stream does nothing else. Communication overlaps with computation as the
workload says, and collectives of different streams share the links. The ranks are small
programs: no GPU and no framework is needed.

Before that, NCCL decides on each call, and each call is made once, so that the ranks are
connected. Values are compared for the last of equal calls; on a real clock for the first.

For each step there is its time, and of that:
  compute   the rank that ended the step last computed, on at least one stream
  exposed   the rest: communication that no computation hid, and waiting
  hidden    it computed and communicated at once
  idle      the part of exposed in which it did neither
A step ends when the last rank has ended it, so the times of the steps add up.

For each kind of call there is its time from when the last rank was ready for it until
the last one had ended it. So waiting for a slow rank is no part of it; waiting for
another call on the same links is. A message counts from when both ends were ready.

On the software CUDA the clock is virtual: times are exact, and the same on every host.
With --clock real or --time-scale K computation sleeps, K times as long.

EXIT STATUS
===========

0 on success, also when the verdict is INVALID; 3 for that with --strict; 1 when a rank
failed or a value was wrong; 2 for bad input, such as a workload whose calls do not match;
130 if interrupted.
`,
		Example: `  ddlemu replay step.jsonl --profile eth10 --nodes 2
  ddlemu replay step.jsonl --profile ndr400 --bw 100Gbps --steps 5 --json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badInput("replay takes one workload: see `ddlemu replay --help`")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runReplay(cmd.Context(), g, &o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cmd
}

func runReplay(ctx context.Context, g *global, o *replayOptions, path string) error {
	if o.flags.Changed("steps") && o.Steps < 1 {
		return badInput("--steps %d: must be at least 1", o.Steps)
	}
	within, err := budget(o.flags, o.Budget)
	if err != nil {
		return err
	}
	show, stopProgress := g.showProgress("replay")
	defer stopProgress()
	ix, err := loadWorkload(ctx, path)
	if err != nil {
		return err
	}
	e, err := o.replay(g, ix)
	if err != nil {
		return err
	}
	defer e.On.Dir.Close()
	e.On.Budget, e.On.Progress, e.On.Strict = within, show.Set, o.Strict
	if e.On.Trace, err = makeTrace(o.Trace, &e.On.Config); err != nil {
		return err
	}
	if e.On.Trace != "" {
		g.injection(e.On.Layout)
	}
	result, err := replay.Run(ctx, e)
	if err != nil {
		g.explainFailure(e.On.Trace)
		return err
	}
	if err := o.print(g, e.On.Trace, result); err != nil {
		return err
	}
	if result.Wrong > 0 {
		return fmt.Errorf("%d wrong elements", result.Wrong)
	}
	if o.Strict && !result.Verdict.Valid {
		return &invalidError{result.Verdict.Word, result.Verdict.Summary}
	}
	return nil
}

// loadWorkload reads a workload, and refuses one whose calls do not match.
func loadWorkload(ctx context.Context, path string) (*workload.Index, error) {
	w, err := workload.ReadFile(path)
	if err != nil {
		return nil, &inputError{err}
	}
	ix, err := w.Index()
	if err != nil {
		return nil, &inputError{fmt.Errorf("%s: %w", path, err)}
	}
	found, err := check.Run(ctx, ix)
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", path, err)
	}
	if len(found) > 0 {
		return nil, badInput("%s does not match, so its ranks would fail or wait for ever: %s%s", path, found[0].Text, moreFindings(len(found)-1))
	}
	return ix, nil
}

func moreFindings(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %s)", units.Count(n, "more finding"))
}

// replay determines the fabric, the ranks on it, and the libraries.
func (o *replayOptions) replay(g *global, ix *workload.Index) (replay.Options, error) {
	o.Ranks = ix.Workload.Head.Ranks
	e, err := o.setup(g, bench.Config{Ranks: o.Ranks, LogDir: o.LogDir, Stderr: g.Stderr})
	return replay.Options{On: e, Workload: ix, Steps: o.Steps, NoCheck: o.NoCheck}, err
}

// print prints the result, and puts it beside the ledgers.
func (o *replayOptions) print(g *global, trace string, r *replay.Result) error {
	doc := r.Report()
	if trace != "" {
		data, err := json.Marshal(doc)
		if err != nil {
			return fmt.Errorf("write JSON: %w", err)
		}
		if err := report.WriteOutcome(trace, data); err != nil {
			return err
		}
	}
	if g.JSON {
		return g.printJSON(doc)
	}
	return r.WriteText(g.Stdout, g.more())
}
