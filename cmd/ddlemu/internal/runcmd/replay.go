// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/tracecmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/workloadcmd"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/report/steps"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/play"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/rewrite"
)

// replayOptions are the flags of replay: those for the fabric are the bench's.
type replayOptions struct {
	BenchOptions
	Steps   int
	NoCheck bool
	Fabrics []string // one that is up, or two to compare
	Sweep   string
	Plot    string
	Times   string
	Force   bool
	junit   junitFile
}

// AddFlags adds the flags to fs.
func (o *replayOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.addOnFlags(fs)
	fs.StringArrayVar(&o.Fabrics, "fabric", nil,
		"`name` of a fabric that is up; given twice: two fabrics to compare, also profiles or files")
	fs.StringVar(&o.Sweep, "sweep", "", fmt.Sprintf(sweepUsage, "play"))
	fs.StringVar(&o.Plot, "plot", "", "`file` for a plot, as SVG: of the parts of the steps, or of the --sweep")
	fs.StringVar(&o.Times, "times", "", "`file` for the times of all operations of all ranks, as CSV")
	o.junit.addFlag(fs, "step")
	o.baseline.addFlags(fs)
	fs.BoolVar(&o.Force, "force", false, "replace the files of --plot and --times")
	fs.IntVar(&o.Steps, "steps", 0,
		"`number` of steps to play; a file with fewer is repeated (default: the steps of the file)")
	o.addRanksOfWorkload(fs)
	fs.BoolVar(&o.NoCheck, "no-check", false, "do not compare the values that calls of NCCL give")
	fs.BoolVar(&o.Strict, "strict", false,
		"exit with status 3 if the verdict is INVALID, also because something could not be checked")
	g.AddJSONFlag(fs)
	g.AddVerboseFlag(fs)
	fs.StringVar(&o.Trace, "trace", "", traceUsage)
	fs.DurationVar(&o.Budget, "budget", 0,
		"real `time` that the command may take: it plays fewer steps (default: no limit)")
	g.AddQuietFlag(fs)
	fs.StringVar(&o.LogDir, "log-dir", "",
		"`folder` for NCCL's logs, the ranks' programs and times, which are then kept")
}

// NewReplayCommand is `ddlemu replay`.
func NewReplayCommand(g *cli.Global) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay WORKLOAD",
		Short: "Play a recorded or made job with real NCCL on an emulated fabric",
		Long: `Play a workload on an emulated fabric: each collective, send and receive is a call of real NCCL
on the stream that the workload names, and computation is time in which the stream does nothing.
No GPU and no framework is needed. The output has the time of each step and each kind of call, and
how much of it was computation, exposed communication and waiting. Two --fabric compare two
fabrics, --sweep plays several values of a parameter, --ranks N plays the first N ranks.

Exit status: 0, also if INVALID; 1 if a rank failed or a value is wrong; 2 for bad input; 3 if
INVALID with --strict or --baseline, or the fabric was taken down; 4 if slower than --baseline;
130 if interrupted (the output has the steps so far).
Page: docs/replay.md`,
		Example: `  ddlemu replay step.jsonl --profile eth10 --nodes 2
  ddlemu replay step.jsonl --profile ndr400 --bw 100Gbps --steps 5 --json
  ddlemu replay step.jsonl --profile eth10 --nodes 2 --ranks 8
  ddlemu replay step.jsonl --fabric ndr400 --fabric eth10
  ddlemu replay step.jsonl --profile ndr400 --sweep bw=10G..800G --plot sweep.svg`,
		Args: cli.Exactly(1, "replay takes one workload, a file or - for standard input: see `ddlemu replay --help`"),
		RunE: func(cmd *cobra.Command, args []string) error { return runReplay(cmd.Context(), g, &o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cli.Ruled(cmd,
		budgetRule,
		cli.Least("steps", 1),
		cli.Excludes("sweep", "fabric", noFabric),
		cli.Excludes("fabric+", "profile file", "two --fabric name both fabrics"),
		cli.Excludes("plot", "fabric+", "a plot has one fabric, or a sweep"),
		cli.Excludes("trace times junit baseline", "sweep fabric+", "a sweep and a comparison are several replays"),
		cli.NewFiles("plot times"))
}

// addRanksOfWorkload adds the flag --ranks of commands that play a workload.
func (o *BenchOptions) addRanksOfWorkload(fs *pflag.FlagSet) {
	fs.IntVar(&o.Ranks, "ranks", 0,
		"`number` of ranks: the first ones of the file, with its communicators cut to them (default: all)")
}

func runReplay(ctx context.Context, g *cli.Global, o *replayOptions, path string) error {
	if len(o.Fabrics) > 2 {
		return cli.BadInput("--fabric: give one, or two to compare")
	}
	if err := cmp.Or(o.junit.begin(), o.baseline.load(baseline.Replay)); err != nil {
		return err
	}
	within := budget(o.Budget)
	show, stopProgress := g.ShowProgress("replay")
	defer stopProgress()
	ix, err := loadWorkload(ctx, g, path, o.ranksWanted())
	if err != nil {
		return err
	}
	player := &replayer{g: g, o: o, ix: ix, budget: within, show: show.Set, play: play.Run}
	switch {
	case o.Sweep != "":
		return player.sweep(ctx)
	case len(o.Fabrics) == 2:
		return player.compare(ctx)
	}
	if len(o.Fabrics) == 1 {
		g.Fabric = o.Fabrics[0]
	}
	result, err := player.one(ctx)
	if err == nil && result.Verdict.Valid {
		result.Baseline, err = o.baseline.compareReport(result.Report())
	}
	if o.junit.path != "" {
		err = errors.Join(err, o.junit.write(replaySuite(path, result, err)))
	}
	if result == nil {
		return err
	}
	stopped := err
	if len(result.Steps) > 0 {
		if err := cli.WriteNamed("--plot", o.Plot, o.Force, result.WriteSVG); err != nil {
			return err
		}
	}
	if err := cli.WriteNamed("--times", o.Times, o.Force, result.WriteTimes); err != nil {
		return err
	}
	err = g.Write(result.Report(), func(w io.Writer) error { return result.WriteText(w, g.More()) })
	return cmp.Or(err, stopped, o.judge(result))
}

// judge is the error of results that are wrong, INVALID with --strict, or slower than in --baseline.
func (o *replayOptions) judge(results ...*steps.Result) error {
	wrong := int64(0)
	for _, r := range results {
		wrong += r.Wrong
	}
	if wrong > 0 {
		return fmt.Errorf("%d wrong elements", wrong)
	}
	for _, r := range results {
		if (o.Strict || o.baseline.before != nil || r.Verdict.TakenDown) && !r.Verdict.Valid {
			return &cli.InvalidError{Word: r.Verdict.Word, Summary: r.Verdict.Summary}
		}
	}
	return o.baseline.judge()
}

// ranksWanted is the number in --ranks, nil without it.
func (o *BenchOptions) ranksWanted() *int {
	if !o.Flags.Changed("ranks") {
		return nil
	}
	return new(o.Ranks)
}

// loadWorkload reads a workload, and refuses one whose calls do not match. ranks is how many of its ranks are wanted;
// nil: all.
func loadWorkload(ctx context.Context, g *cli.Global, path string, ranks *int) (*workload.Index, error) {
	ix, err := workloadcmd.ReadWorkload(g, path)
	if err != nil {
		return nil, err
	}
	if path == cli.StandardInput {
		path = "standard input"
	}
	if err := mustMatch(ctx, path, ix); err != nil {
		return nil, err
	}
	if ranks != nil {
		w, err := rewrite.FirstRanks(ix, *ranks)
		if err != nil {
			return nil, cli.BadInput("--ranks %d: %w", *ranks, err)
		}
		cut := fmt.Sprintf("%s, cut to %d ranks,", path, *ranks)
		if ix, err = w.Index(); err != nil {
			return nil, cli.BadInput("%s: %w", cut, err)
		}
		if err := mustMatch(ctx, cut, ix); err != nil {
			return nil, err
		}
	}
	if _, err := play.StepsOf(ix); err != nil {
		return nil, &cli.InputError{Err: fmt.Errorf("%s: %w", path, err)}
	}
	return ix, nil
}

// mustMatch refuses a workload whose calls do not match.
func mustMatch(ctx context.Context, name string, ix *workload.Index) error {
	found, err := check.Run(ctx, ix)
	if err != nil {
		return fmt.Errorf("check %s: %w", name, err)
	}
	if len(found) > 0 {
		return cli.BadInput("%s does not match, so its ranks would fail or wait for ever: %s%s", name, found[0].Text,
			moreFindings(len(found)-1))
	}
	return nil
}

func moreFindings(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %s)", units.Count(n, "more finding"))
}

// replayer plays one workload, on one fabric after the other.
type replayer struct {
	g      *cli.Global
	o      *replayOptions
	ix     *workload.Index
	budget emulate.Budget
	show   emulate.Progress
	play   func(context.Context, play.Options) (*play.Result, error)
	goal   io.Writer // for the messages of a forecast; nil if they are not wanted
}

// prepare determines the fabric that the flags describe, and what to play on it. which names it in the progress, "" if
// there is only one. The caller closes the folder.
func (p *replayer) prepare(g *cli.Global, fs *pflag.FlagSet, which string) (play.Options, error) {
	o := *p.o
	o.Flags, o.Ranks = fs, p.ix.Workload.Head.Ranks
	o.Profile, o.File = fs.Lookup("profile").Value.String(), fs.Lookup("file").Value.String()
	e, err := o.setup(g, bench.Config{Ranks: o.Ranks, LogDir: o.LogDir, Stderr: g.Stderr})
	if err != nil {
		return play.Options{}, err
	}
	e.Budget, e.Strict, e.Progress = p.budget, o.Strict, p.show
	if which != "" {
		p.g.Tell(e.Header.Unused) // what compares replays does not print their notes
		e.Progress = func(what string, _ time.Duration) { p.show(which+": "+what, -1) }
	}
	return play.Options{On: e, Workload: p.ix, Steps: o.Steps, NoCheck: o.NoCheck}, nil
}

// one plays on one fabric, with a trace if one is wanted.
func (p *replayer) one(ctx context.Context) (*steps.Result, error) {
	e, err := p.prepare(p.g, p.o.Flags, "")
	if err != nil {
		return nil, err
	}
	defer e.On.Dir.Close()
	if err := p.o.baseline.checkWorkload(&e.On, p.ix); err != nil {
		return nil, err
	}
	if e.On.Trace, err = makeTrace(p.o.Trace, &e.On.Config); err != nil {
		return nil, err
	}
	e.Interval, e.GOAL = true, p.goal
	if e.On.Trace != "" {
		injection(p.g, e.On.Layout)
	}
	result, err := steps.Of(p.play(ctx, e))
	trimTrace(p.g, e.On.Trace)
	if err != nil && result == nil {
		tracecmd.ExplainFailure(p.g, e.On.Trace)
	}
	if err != nil || e.On.Trace == "" {
		return result, err
	}
	return result, report.WriteOutcome(e.On.Trace, result.Report())
}

// trial is a replay whose result is compared with others.
func (p *replayer) trial(ctx context.Context, g *cli.Global, fs *pflag.FlagSet, which string) (t trial[*steps.Result],
	err error) {
	of, err := p.prepare(g, fs, which)
	if err != nil {
		return t, err
	}
	return trial[*steps.Result]{play: func() (*steps.Result, error) { return steps.Of(p.play(ctx, of)) },
		end: func() { of.On.Dir.Close() }}, nil
}

// with is a copy of the flags that the user gave, without those for which leave is true.
func with(given *pflag.FlagSet, leave func(name string) bool) (*pflag.FlagSet, error) {
	fs := pflag.NewFlagSet("replay", pflag.ContinueOnError)
	new(fabriccmd.SourceOptions).AddFlags(fs)
	return fs, flags.Copy(fs, given, leave)
}

// compare plays on two fabrics.
func (p *replayer) compare(ctx context.Context) error {
	var both trials[*steps.Result]
	defer func() { both.end() }()
	for i, name := range p.o.Fabrics { // both are known to exist before the first one is played
		g := *p.g
		fs, err := with(p.o.Flags, func(flag string) bool { return i == 0 && ofLinks(flag) })
		if err != nil {
			return err
		}
		switch _, missing := os.Stat(name); {
		case slices.Contains(configs.AllProfileNames(), name):
			err = fs.Set("profile", name)
		case missing == nil:
			err = fs.Set("file", name)
		default:
			g.Fabric = name
		}
		if err != nil {
			return err
		}
		t, err := p.trial(ctx, &g, fs, fmt.Sprintf("fabric %d of 2, %s", i+1, name))
		if err != nil {
			return fmt.Errorf("--fabric %s: %w", name, err)
		}
		t.name = "--fabric " + name
		both = append(both, t)
	}
	results, err := both.play()
	if err != nil {
		return err
	}
	c := &steps.Comparison{Original: results[0], Emulated: results[1]}
	err = p.g.Write(c.Report(), func(w io.Writer) error { return c.WriteText(w, p.g.More()) })
	return cmp.Or(err, p.o.judge(results...))
}

// ofLinks says whether a flag describes links.
func ofLinks(flag string) bool {
	return slices.ContainsFunc(configs.LinkParams(), func(p configs.LinkParam) bool { return p.Flag == flag })
}

// sweep plays for each value of a parameter.
func (p *replayer) sweep(ctx context.Context) error {
	v, results, stopped := overValues(ctx, p.o.Sweep, p.o.Flags,
		func(fs *pflag.FlagSet, which string) (trial[*steps.Result], error) {
			return p.trial(ctx, p.g, fs, which)
		})
	if len(results) == 0 {
		return stopped
	}
	s := steps.NewSweep(v, results)
	if err := cli.WriteNamed("--plot", p.o.Plot, p.o.Force, s.WriteSVG); err != nil {
		return err
	}
	err := p.g.Write(s.Report(), s.WriteText)
	return cmp.Or(err, stopped, p.o.judge(results...))
}
