// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/report/forecast"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// expectOptions are the flags of expect.
type expectOptions struct {
	BenchOptions
	Log        string // path of the log to judge
	All        bool   // judge all tables of the log
	DecideUpTo string
	Workload   string // path
	Steps      int    // of the workload
	Plot       string // of the workload
	Sweep      string
	GOAL       string // of the workload
	Force      bool   // replace the files of Plot and GOAL
	Why        bool   // say where the times go
}

// AddFlags adds the flags to fs.
func (o *expectOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.addFabricFlags(g, fs)
	o.addRowFlags(fs)
	fs.IntVar(&o.Seeds, "seeds", 1,
		"calculate for so `many` seeds, from the fabric's on, of paths (ECMP), jitter and losses")
	fs.StringVar(&o.Log, "log", "", "`file` with a table of nccl-tests or ddlemu bench to judge; - for standard input")
	fs.BoolVar(&o.All, "all", false,
		"with --log: judge all tables of the log, each as the collective that it names or its rows show")
	fs.BoolVar(&o.Strict, "strict", false, "with --log: exit with status 1 unless every time is as expected or faster")
	fs.StringVar(&o.DecideUpTo, "decide-up-to", "64M",
		"on a real GPU: largest `size` that NCCL runs for its decision; larger ones get the same decision")
	fs.StringVar(&o.Workload, "workload", "",
		"`file` with a workload, instead of a collective: how long do its steps take? - for standard input")
	fs.StringVar(&o.Sweep, "sweep", "", fmt.Sprintf(sweepUsage, "calculate"))
	fs.StringVar(&o.Plot, "plot", "", "with --workload: `file` for a plot of the parts of the steps, as SVG")
	fs.StringVar(&o.GOAL, "goal", "",
		"with --workload: `file` for the job as GOAL, each call as NCCL's sends and receives")
	fs.BoolVar(&o.Force, "force", false, "replace the files of --plot and --goal")
	fs.IntVar(&o.Steps, "steps", 0,
		"with --workload: `number` of steps; a file with fewer is repeated (default: the steps of the file)")
	fs.BoolVar(&o.Why, "why", false, "say where the time of a call goes: launch, steps of the kernels, links within a node, "+
		"proxies, network")
	o.baseline.addFlags(fs)
	g.AddJSONFlag(fs)
	g.AddQuietFlag(fs)
}

// expectRules are the rules for the flags of expect.
var expectRules = []cli.Rule{
	cli.Required("COLLECTIVE log workload", "nothing says what is calculated"),
	cli.Excludes("workload", "COLLECTIVE minbytes maxbytes stepfactor stepbytes datatype op root iters log decide-up-to "+
		"why", "a workload has the ranks and the calls"),
	cli.Excludes("log", "minbytes maxbytes stepbytes stepfactor", "the log has the sizes"),
	cli.Needs("strict all", "log", ""), cli.Needs("plot goal force steps", "workload", ""),
	cli.Excludes("why", "log sweep", "only expected times of one fabric have parts"),
	cli.Excludes("baseline", "log sweep", "a baseline has the times of one fabric"),
	cli.Excludes("sweep", "log", "a log is judged on one fabric"), cli.Excludes("sweep", "fabric", noFabric),
	cli.Least("steps iters", 1), cli.Range("seeds", 1, emulate.MaxSeeds), cli.NewFiles("plot goal"),
}

// NewExpectCommand is `ddlemu expect`.
func NewExpectCommand(g *cli.Global) *cobra.Command {
	var o expectOptions
	cmd := &cobra.Command{
		Use:       "expect COLLECTIVE | --log FILE | --workload FILE",
		ValidArgs: nccl.Collectives(),
		Short:     "Calculate expected times on a fabric, and judge a table of nccl-tests",
		Long: `Ask real NCCL for its decision on each size (algorithm, protocol, channels), and calculate with
the link model how long that takes. No call is run on the software CUDA.

--log judges each row of a table that nccl-tests printed on a cluster, and says what limits it.
--workload calculates the steps of a job, --sweep several values of a parameter of all links, and
--why says where the time until the last rank is done goes.

Exit status: 0; 1 on failure, or with --strict if a row of the log is not as expected; 2 for bad
input; 4 if a time is longer than in --baseline; 130 if interrupted (the output has the rows so far).
Page: docs/measuring.md and docs/validation.md`,
		Example: `  ddlemu expect allreduce --profile ndr400 --ranks 2 -b 8 -e 1G -f 8
  ddlemu expect allreduce --profile hgx-h100-ndr400 --nodes 2 -b 1M -e 1M --why   # where the time of a call goes
  ddlemu expect --profile eth10 --ranks 4 --nodes 2 --log nccl-tests.txt --strict
  ddlemu expect --workload step.jsonl --profile eth10 --nodes 2
  ddlemu expect --workload step.jsonl --profile ndr400 --nodes 8 --goal step.goal
  ddlemu expect allreduce --profile eth10 --ranks 2 -b 64K -e 4M -f 4 --sweep bw=10G..100G`,
		Args: cli.AtMostOneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Workload != "" {
				return runExpectWorkload(cmd.Context(), g, &o)
			}
			return runExpect(cmd.Context(), g, &o, args)
		},
	}
	o.AddFlags(g, cmd.Flags())
	return cli.Ruled(cmd, expectRules...)
}

// runExpect is expect without a workload. Without a collective, the log says it.
func runExpect(ctx context.Context, g *cli.Global, o *expectOptions, collective []string) error {
	b, err := o.Bench(g, append(collective, nccl.AllReduce.String())[0])
	if err != nil {
		return &cli.InputError{Err: err}
	}
	calls, err := o.calls(g, b, len(collective) > 0)
	if err != nil {
		return err
	}
	most, err := bench.ParseSize(o.DecideUpTo)
	if err != nil || most < 1 {
		return cli.BadInput("--decide-up-to %s: must be a size of at least 1 byte", o.DecideUpTo)
	}
	if o.Sweep != "" {
		return o.runSweep(ctx, g, b, most)
	}
	if err := o.baseline.load(baseline.Expect); err != nil {
		return err
	}
	var reports []*forecast.Report
	var failures []string
	for i := range calls {
		r, failed := o.forecast(ctx, g, &calls[i], most)
		if r == nil {
			return failed
		}
		reports = append(reports, r)
		if !g.JSON {
			if i > 0 {
				fmt.Fprintln(g.Stdout)
			}
			printForecast(g.Stdout, r, o.All)
		}
		if failed != nil {
			return cmp.Or(o.printReports(g, reports), failed)
		}
		if failure := r.Failure(); failure != "" {
			failures = append(failures, failure)
		}
	}
	err = o.printReports(g, reports)
	if err == nil && o.Strict && len(failures) > 0 {
		err = fmt.Errorf("--log %s: %s", o.Log, strings.Join(failures, "; "))
	}
	return cmp.Or(err, o.baseline.judge())
}

// calls returns the calls to calculate: the calls of b, or of the tables of the log. given says that the user names the
// collective.
func (o *expectOptions) calls(g *cli.Global, b bench.Config, given bool) ([]expectTable, error) {
	switch {
	case o.Log != "":
		calls, err := o.readLog(g, b, given)
		if err != nil {
			err = &cli.InputError{Err: fmt.Errorf("--log %s: %w", o.Log, err)}
		}
		return calls, err
	case len(b.Types) > 1:
		return nil, cli.BadInput("--datatype %s: expect takes one type at a time: give one, such as --datatype float",
			o.Type)
	case len(b.Ops) > 1 && b.Collective.Reduces():
		return nil, cli.BadInput("--op %s: expect takes one operation at a time: give one, such as --op sum", o.Op)
	}
	return []expectTable{{bench: b}}, nil
}

// printReports prints the reports as JSON if that is asked for: a list with --all.
func (o *expectOptions) printReports(g *cli.Global, reports []*forecast.Report) error {
	switch {
	case !g.JSON:
		return nil
	case o.All:
		return g.PrintJSON(reports)
	}
	return g.PrintJSON(reports[0])
}

// expectTable is a collective with the table of a log, nil without one.
type expectTable struct {
	bench bench.Config
	log   *tables.Table
}

// forecast calculates the expected times of a table. If it is interrupted, it returns a report of the rows so far with
// the error. It returns the whole report with the error if that cannot be compared with the baseline. Else there is no
// report with an error.
func (o *expectOptions) forecast(ctx context.Context, g *cli.Global, t *expectTable, decideUpTo int64) (
	*forecast.Report, error) {
	e, notes, err := o.options(g, t)
	if err != nil {
		return nil, err
	}
	defer e.Dir.Close()
	if err := o.baseline.checkExpect(&e); err != nil {
		return nil, err
	}
	show, stop := g.ShowProgress("expect")
	defer stop()
	e.DecideUpTo, e.Progress, e.Explain = decideUpTo, show.Set, o.Why
	if e.Config.TimeScale > 0 {
		e.Config.TimeScale = 1 // 0 is that too, and then the clock is the one that bench would choose
	}
	report, err := forecast.Calculate(ctx, e, t.log, notes)
	if err == nil {
		report.Baseline, err = o.baseline.compareReport(report)
	}
	return report, err
}

// options are the fabric and the calls of a table. The notes say what the fabric has of the log. The caller closes the
// folder.
func (o *expectOptions) options(g *cli.Global, t *expectTable) (e emulate.Options, notes []string, err error) {
	o.onlyModel = true
	if t.log == nil {
		e, err = o.setup(g, t.bench)
		return e, nil, err
	}
	if o, err = o.forTable(g); err != nil {
		return e, nil, err
	}
	if t.bench.Ranks > 0 {
		o.Ranks = t.bench.Ranks
	}
	if notes, err = o.place(g, t.log); err != nil {
		return e, nil, &cli.InputError{Err: fmt.Errorf("--log %s: %w", o.Log, err)}
	}
	e, err = o.setup(g, t.bench)
	env, used := settings(t.log, g.Getenv)
	e.Env = slices.Concat(e.Env, t.log.StandIn(), env)
	return e, append(notes, used...), err
}

// openTable opens a file that the user named.
func openTable(path string) (*os.File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no such file: give the path of one with a table of nccl-tests")
	}
	return f, err
}

// readLog reads the table of b's collective, or all tables with --all, and makes a copy of b measure its rows. If no
// collective is given, it is the first one that the log has.
func (o *expectOptions) readLog(g *cli.Global, b bench.Config, given bool) ([]expectTable, error) {
	in := g.Stdin
	if o.Log != "-" {
		f, err := openTable(o.Log)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	file, err := tables.Read(in)
	if err != nil {
		return nil, err
	}
	logs, err := o.tablesOf(file, b.Collective, given)
	if err != nil {
		return nil, err
	}
	var all []expectTable
	for _, log := range logs {
		t := expectTable{b, log}
		if err := log.Configure(&t.bench, o.given(b)); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// tablesOf are the tables of a file to be judged.
func (o *expectOptions) tablesOf(file *tables.File, c nccl.Collective, given bool) ([]*tables.Table, error) {
	var prefer []nccl.Collective
	if given {
		prefer = []nccl.Collective{c}
	}
	if o.All || !given {
		all, err := file.Each(prefer...)
		if o.All || err != nil {
			return all, err
		}
		c = all[0].Collective
	}
	t, err := file.Choose(c)
	return []*tables.Table{t}, err
}

// given is what the user has set and the log must agree with.
func (o *expectOptions) given(b bench.Config) tables.Flags {
	f := tables.Flags{Ranks: -1, Iters: -1}
	if o.Flags.Changed("ranks") {
		f.Ranks = o.Ranks
	}
	if o.Flags.Changed("iters") {
		f.Iters = o.Iters
	}
	if o.Flags.Changed("datatype") {
		f.Types = b.Types
	}
	if o.Flags.Changed("op") {
		f.Ops = b.Ops
	}
	return f
}
