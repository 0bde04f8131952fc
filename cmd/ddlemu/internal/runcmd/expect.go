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
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/report/forecast"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
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
	tables := []expectTable{{bench: b}}
	switch {
	case o.Log != "":
		if tables, err = o.readLog(g, b, len(collective) > 0); err != nil {
			return &cli.InputError{Err: fmt.Errorf("--log %s: %w", o.Log, err)}
		}
	case len(b.Types) > 1:
		return cli.BadInput("--datatype %s: expect takes one type at a time: give one, such as --datatype float",
			o.Type)
	case len(b.Ops) > 1 && b.Collective.Reduces():
		return cli.BadInput("--op %s: expect takes one operation at a time: give one, such as --op sum", o.Op)
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
	for i := range tables {
		r, failed := o.forecast(ctx, g, &tables[i], most)
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
	log   *forecast.Log
}

// forecast calculates the expected times of a table. If it is interrupted, it returns a report of the rows so far with
// the error. It returns the whole report with the error if that cannot be compared with the baseline. Else there is no
// report with an error.
func (o *expectOptions) forecast(ctx context.Context, g *cli.Global, t *expectTable, decideUpTo int64) (
	*forecast.Report, error) {
	var notes []string
	o.onlyModel = true
	if t.log != nil {
		var err error
		if o, err = o.forTable(g); err != nil {
			return nil, err
		}
		if t.bench.Ranks > 0 {
			o.Ranks = t.bench.Ranks
		}
		if notes, err = o.place(g, t.log); err != nil {
			return nil, &cli.InputError{Err: fmt.Errorf("--log %s: %w", o.Log, err)}
		}
	}
	e, err := o.setup(g, t.bench)
	if err != nil {
		return nil, err
	}
	defer e.Dir.Close()
	if t.log != nil {
		env, used := settings(t.log, g.Getenv)
		e.Env, notes = append(e.Env, env...), append(notes, used...)
	}
	if err := o.baseline.checkExpect(&e); err != nil {
		return nil, err
	}
	show, stop := g.ShowProgress("expect")
	defer stop()
	e.DecideUpTo, e.Progress, e.Explain = decideUpTo, show.Set, o.Why
	if e.Config.TimeScale > 0 {
		e.Config.TimeScale = 1 // 0 is that too, and then the clock is the one that bench would choose
	}
	rows, info, failed := emulate.Expect(ctx, e)
	if failed != nil && ctx.Err() == nil {
		return nil, failed
	}
	log := t.log
	if failed != nil {
		log = nil // it needs all rows
	}
	report := forecast.NewReport(rows, e.Bench.Ranks, log)
	report.Explain(rows, &e.Config)
	report.NCCL, report.Profile, report.Nodes = info.NCCL, e.Config.Name, e.Nodes(&e.Config)
	in := e.Header.Fabric
	report.GPU, report.GPUTime = e.Config.GPUName(), in.GPUTime
	report.InForce, report.Fabric, report.NotIn = in.Changes(), in, e.NotIn(&e.Config, true)
	if log == nil {
		report.NotIn = append([]string{emulate.NoRun}, report.NotIn...)
	}
	report.Collective, report.Iters = e.Bench.Collective.String(), e.Bench.Iters
	report.Root, report.Seed = e.Bench.Root, e.Config.Seed
	if log != nil {
		report.RankCauses(ctx, e, emulate.Expect)
		report.NameSlow()
		report.JudgeNetwork(portsOf(&e.Config), log)
		report.Notes = slices.Concat(report.Notes, otherNodes(log.Nodes(), report.Nodes), notes,
			logNotes(log, &e.Config, info.NCCL))
	}
	uncrossed, err := emulate.UncrossedBy(&e.Config, rows)
	if err != nil {
		return nil, err
	}
	report.Notes = append(report.Notes, uncrossed...)
	caveats, err := e.Notes()
	if err != nil {
		return nil, err
	}
	report.Notes = slices.Concat(report.Notes, caveats, e.Header.Unused)
	if failed != nil {
		report.Verdict = verdict.Incomplete
		return report, failed
	}
	report.Baseline, err = o.baseline.compareReport(report)
	return report, err
}

// otherNodes is a note if the ranks of a log were on another number of hosts than here. hosts is 0 if the log does not
// say it.
func otherNodes(hosts, nodes int) []string {
	switch hosts {
	case 0, nodes:
		return nil
	case 1:
		return []string{
			fmt.Sprintf(
				"the ranks of the log were on 1 host, here they are on %d: its times are those of what joins the GPUs "+
					"of a host, "+
					"and the links of a fabric are between nodes", nodes)}
	}
	return []string{fmt.Sprintf("the ranks of the log were on %s, here they are on %d: give --nodes %d",
		units.Count(hosts, "host"), nodes, hosts)}
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
	log, err := forecast.ReadLog(in)
	if err != nil {
		return nil, err
	}
	logs, collectives, err := o.tablesOf(log, b.Collective, given)
	if err != nil {
		return nil, err
	}
	settings := o.given(b)
	var tables []expectTable
	for i, log := range logs {
		t := expectTable{b, log}
		t.bench.Collective = collectives[i]
		if err := log.Configure(&t.bench, settings); err != nil {
			return nil, err
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// tablesOf are the tables of a log to be judged, each with its collective.
func (o *expectOptions) tablesOf(log *forecast.Log, c nccl.Collective, given bool) ([]*forecast.Log, []nccl.Collective,
	error) {
	var prefer []nccl.Collective
	if given {
		prefer = []nccl.Collective{c}
	}
	if o.All {
		return log.Each(prefer...)
	}
	if !given {
		_, all, err := log.Each()
		if err != nil {
			return nil, nil, err
		}
		c = all[0]
	}
	return []*forecast.Log{log}, []nccl.Collective{c}, log.Choose(c)
}

// given is what the user has set and the log must agree with.
func (o *expectOptions) given(b bench.Config) forecast.Flags {
	f := forecast.Flags{Ranks: -1, Iters: -1}
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
