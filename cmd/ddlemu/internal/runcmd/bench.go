// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/fabriccmd"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/tracecmd"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/flags"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/intercept/report"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// BenchOptions are the flags of bench: the flags of nccl-tests and the flags of the fabric.
type BenchOptions struct {
	fabriccmd.SourceOptions
	Ranks            int
	Begin, End, Step int64 // bytes
	Factor           int64
	Iters, Warmup    int
	Check, Root      int
	Seeds            int
	Type, Op         string
	NCCL             string
	Soft             bool
	Strict, CSV      bool
	LogDir, Trace    string
	Stall            time.Duration
	Cycles           int
	limits           thresholds
	baseline         baselineFile
	junit            junitFile
	run              bench.Recording // of the last attempt
	Budget           time.Duration
	Join             time.Duration // how long to wait for nodes that are other containers
	inForce          configs.InForce
	nodesFrom        string // where a file or a variable gives the nodes; "" if none does
	onlyModel        bool   // all times are those of the model
	nodeTimeFrom     string // what gives whether nodes cost time; "" if only a profile or nothing does
	nodeTimeIfKnown  bool   // nodes cost time if their kind of GPU has it and nothing says otherwise
	oneThread        bool   // of a node makes the calls of all its ranks
}

// AddFlags adds the flags to fs.
func (o *BenchOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.addFabricFlags(g, fs)
	o.addRowFlags(fs)
	fs.IntVarP(&o.Warmup, "warmup_iters", "w", 5, "untimed iterations before the timed ones")
	fs.IntVarP(&o.Check, "check", "c", 1, "1 to check every element of the result, 0 to skip the check")
	fs.IntVarP(&o.Cycles, "run_cycles", "N", 1, "number of times to measure all rows")
	o.limits.AddFlags(fs)
	o.baseline.addFlags(fs)
	o.junit.addFlag(fs, "row")
	fs.BoolVar(&o.Strict, "strict", false,
		"exit with status 3 if the verdict is INVALID; rows without expected time make it INVALID")
	g.AddJSONFlag(fs)
	g.AddVerboseFlag(fs)
	fs.BoolVar(&o.CSV, "csv", false, "print CSV")
	fs.StringVar(&o.Trace, "trace", "", traceUsage)
	addStallFlag(fs, &o.Stall)
	addBudgetFlag(fs, &o.Budget)
	addJoinFlag(fs, &o.Join)
	g.AddQuietFlag(fs)
	fs.StringVar(&o.LogDir, "log-dir", "", "`folder` for NCCL's logs, which are then kept")
}

// addFabricFlags adds the flags for the fabric and the ranks on it.
func (o *BenchOptions) addFabricFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.addOnFlags(fs)
	fs.StringVar(&g.Fabric, "fabric", "", "`name` of a fabric that is up, instead of a new one")
	fs.IntVar(&o.Ranks, "ranks", 0, "number of ranks (default: nodes x GPUs per node, else 2)")
}

// addOnFlags adds the flags for a new fabric and the NCCL on it.
func (o *BenchOptions) addOnFlags(fs *pflag.FlagSet) {
	o.SourceOptions.AddFlags(fs)
	fs.StringVar(&o.NCCL, "nccl", "", "`version` (2.22 or 2.29) for the software CUDA, or path of libnccl.so.2")
	fs.BoolVar(&o.Soft, "soft-cuda", false, "use the software CUDA even if there is a GPU")
}

// addRowFlags adds the flags of nccl-tests that determine the rows of the table.
func (o *BenchOptions) addRowFlags(fs *pflag.FlagSet) {
	o.Begin, o.End, o.Step = 32<<20, 32<<20, 1<<20
	fs.VarP(cli.Size(&o.Begin), "minbytes", "b", "smallest `size`")
	fs.VarP(cli.Size(&o.End), "maxbytes", "e", "largest `size`")
	fs.VarP(cli.Size(&o.Step), "stepbytes", "i", "`size` to add from one row to the next")
	fs.Int64VarP(&o.Factor, "stepfactor", "f", 0, "factor from one row to the next, instead of -i")
	fs.IntVarP(&o.Iters, "iters", "n", 20, "timed iterations of a row")
	fs.StringVarP(&o.Op, "op", "o", "sum", "`operation`: sum, prod, min, max, avg or all")
	fs.StringVarP(&o.Type, "datatype", "d", "float",
		"`type`: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16 or all")
	fs.IntVarP(&o.Root, "root", "r", 0, "root of broadcast, reduce, gather and scatter")
}

// NewBenchCommand is `ddlemu bench`.
func NewBenchCommand(g *cli.Global) *cobra.Command {
	var o BenchOptions
	cmd := &cobra.Command{
		Use:       "bench COLLECTIVE",
		ValidArgs: nccl.Collectives(),
		Short:     "Measure a collective on an emulated fabric, as nccl-tests does",
		Long: `Run real NCCL on an emulated fabric, and print nccl-tests' table with the time that the link model
expects for each row, and a verdict on whether this host really carried the fabric.
Collectives: ` + strings.Join(nccl.Collectives(), ", ") + `.
The software CUDA has a virtual clock with exact times; on GPUs or with --clock real, K times
slower links make K times longer runs, and a run that is INVALID because of this host is repeated.

Exit status: 0, also if INVALID; 1 if a rank failed, a result is wrong or --require is missed; 2 for
bad input; 3 if INVALID with --strict, --require or --baseline, or the fabric was taken down; 4 if
slower than --baseline; 130 if interrupted (the output has the rows so far).
Page: docs/measuring.md`,
		Example: `  ddlemu bench allreduce --profile ndr400 --ranks 2 -b 8 -e 16M -f 4
  ddlemu bench alltoall --profile eth10 --ranks 4 --nodes 2 --lat 50us --json
  ddlemu bench allreduce --profile ndr400 --ranks 2 -b 16M -e 16M --require busbw=45GB/s --junit bench.xml`,
		Args: cli.Exactly(1, "bench takes one collective (%s): see `ddlemu bench --help`",
			strings.Join(nccl.Collectives(), ", ")),
		RunE: func(cmd *cobra.Command, args []string) error { return runBench(cmd.Context(), g, &o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cli.Ruled(cmd,
		slices.Concat(stallRules, []cli.Rule{budgetRule, cli.AtMostOne("json csv", ""), cli.Least("iters", 1),
			cli.Least("warmup_iters run_cycles", 0), cli.Least("join", time.Nanosecond)})...)
}

func runBench(ctx context.Context, g *cli.Global, o *BenchOptions, collective string) (err error) {
	if err := errors.Join(o.junit.begin(), o.baseline.load(baseline.Bench)); err != nil {
		return err
	}
	within := budget(o.Budget)
	show, stopProgress := g.ShowProgress("bench")
	defer stopProgress()
	b, err := o.Bench(g, collective)
	if err != nil {
		return &cli.InputError{Err: err}
	}
	e, err := o.setup(g, b)
	if err != nil {
		return err
	}
	defer e.Dir.Close()
	if err := o.baseline.checkBench(&e); err != nil {
		return err
	}
	e.Budget, e.Progress = within, show.Set
	ended, err := o.awaitNodes(ctx, &e)
	if err != nil {
		return err
	}
	defer func() { ended(err) }()
	if e.Trace, err = makeTrace(o.Trace, &e.Config); err != nil {
		return err
	}
	if e.Trace != "" {
		injection(g, e.Layout)
	}
	var outcome bytes.Buffer
	e.Strict = o.Strict
	e.Output = emulate.Output{Printer: o.printer(g, &outcome), More: g.More(),
		LastOnly: g.JSON || o.CSV || !cli.IsTerminal(g.Stdout)}
	stop := watchStalls(g, e.Trace, o.Stall)
	out, err := emulate.Run(ctx, e)
	stop()
	trimTrace(g, e.Trace)
	if e.Trace != "" && outcome.Len() > 0 {
		err = errors.Join(err, report.WriteOutcome(e.Trace, json.RawMessage(outcome.Bytes())))
	}
	if o.junit.path != "" {
		held := &judges{&o.limits, o.baseline.result}
		err = errors.Join(err, o.junit.write(benchSuite(e.Bench, cmp.Or(o.run.Header, &bench.Header{}), &out, held, err)))
	}
	if err != nil {
		tracecmd.ExplainFailure(g, e.Trace)
		return err
	}
	if n := out.Result.Wrong(); n > 0 {
		return fmt.Errorf("%d wrong elements", n)
	}
	// What is asked of the rows cannot be judged by times that say nothing.
	if (o.Strict || o.limits.any() || o.baseline.before != nil || out.Verdict.TakenDown) && !out.Verdict.Valid {
		return &cli.InvalidError{Word: out.Verdict.Word, Summary: out.Verdict.Summary}
	}
	return cmp.Or(o.limits.judge(out.Result.Rows), o.baseline.judge())
}

// fabric returns the configuration of the fabric: a new one for this run, or the configuration of the shared one.
func (o *BenchOptions) fabric(g *cli.Global) (*configs.Fabric, error) {
	if g.Fabric == "" {
		origins := map[string]string{}
		var unset configs.Fabric
		cfg, err := flags.Load(configs.Source{Profile: o.Profile, File: o.File, Origins: origins, Unset: &unset,
			Getenv: g.Getenv}, o.Flags)
		if !o.Flags.Changed("nodes") {
			o.nodesFrom = origins["nodes"]
		}
		o.nodeTimeFrom = origins["node_time"]
		if errors.Is(err, configs.ErrUnnamed) {
			err = orShared(g, err)
		}
		if err == nil {
			o.inForce = cfg.InForce(&unset)
		}
		return cfg, err
	}
	if err := onlyFabric(g.Fabric, o.Flags); err != nil {
		return nil, err
	}
	up, err := g.Open()
	if _, ok := errors.AsType[*cli.NotUpError](err); ok && slices.Contains(configs.AllProfileNames(), g.Fabric) {
		return nil, cli.BadInput("%w; or give --profile %s instead of --fabric", err, g.Fabric)
	}
	if err != nil {
		return nil, err
	}
	defer up.Close()
	fab, err := fabricfile.Read(up.File)
	if err != nil {
		return nil, err
	}
	c := fab.Config
	c.TimeScale = fab.TimeScale()
	o.inForce, err = fab.InForce()
	return &c, err
}

// orShared adds to an error that no fabric is named the one that is up.
func orShared(g *cli.Global, err error) error {
	dir, e := g.OpenDir(false)
	if e != nil {
		return err
	}
	defer dir.Close()
	name, e := dir.Shared()
	if e != nil || name == "" {
		return err
	}
	return cli.BadInput("%w; or --fabric %s, to run on the fabric that is up", err, name)
}

// setNodeTime settles whether nodes cost time, and returns what the header says of it. shared: the fabric is up.
func (o *BenchOptions) setNodeTime(cfg *configs.Fabric, shared bool) (text string, err error) {
	asked := o.nodeTimeFrom != ""
	if o.nodeTimeIfKnown && !asked {
		cfg.NodeTime = cfg.HasGPUTime()
	}
	if cfg.NodeTime && !cfg.HasGPUTime() && asked {
		return "", cli.BadInput("%s: %s has no section time: see docs/node-time.md", o.nodeTimeFrom, cfg.GPU.Name)
	}
	var not error
	switch {
	case o.onlyModel || cfg.TimedNodes:
	case shared:
		not = fmt.Errorf("%w: the fabric that is up does not have it", cli.ErrUpWithout(cfg))
	default:
		not = cfg.CheckTimedNodes(o.Soft || !locate.HasGPU())
	}
	if not != nil && asked && cfg.NodeTime {
		return "", cli.BadInput("%s: %w; ddlemu expect has calculated times", o.nodeTimeFrom, not)
	}
	text = cfg.GPUTimeText(not)
	cfg.NodeTime = cfg.CostsGPUTime() && not == nil
	cfg.TimedNodes = cfg.NodeTime && !o.onlyModel
	if cfg.NodeTime {
		cfg.SetNICRate()
	}
	return text, nil
}

// nodeTimeOff says whether a flag or a variable says that nodes cost nothing.
func (o *BenchOptions) nodeTimeOff(g *cli.Global) bool {
	f := o.Flags.Lookup("node-time")
	text := f.Value.String()
	if !f.Changed {
		text = g.Getenv("DDLEMU_NODE_TIME")
	}
	on, err := configs.ParseOnOff(text)
	return err == nil && !on // else nothing that is valid is given
}

// setUnlessGiven sets a flag that the user did not give to a value that a table or a log has, if it has one. whose says
// which, for an error.
func (o *BenchOptions) setUnlessGiven(whose, flag, value string) error {
	if value == "" || o.Flags.Changed(flag) {
		return nil
	}
	if err := flags.Set(o.Flags, flag, value); err != nil {
		return fmt.Errorf("%s %s: %w", whose, flag, err)
	}
	return nil
}

// giveAgain adds the flags of other options by add, and sets those that the user gave in from. A list that was given
// becomes one element: no option of a single table is a list.
func giveAgain(g *cli.Global, from *pflag.FlagSet, add func(*cli.Global, *pflag.FlagSet)) error {
	unused := *g // the flags of g have been read
	to := pflag.NewFlagSet("", pflag.ContinueOnError)
	add(&unused, to)
	return flags.Copy(to, from, func(string) bool { return false })
}

// nvlinkNCCL is the release line of NCCL that decides for NVLink domains of several nodes. NCCL 2.22 does not merge the
// topology files of several nodes.
const nvlinkNCCL = "2.29"

// checkDomain says if NVLinks connect several nodes and a run would not know that. If only the model runs, it chooses
// the NCCL that decides.
func (o *BenchOptions) checkDomain(cfg *configs.Fabric) error {
	if !o.onlyModel {
		return cfg.CheckEmulated()
	}
	if !cfg.NodeTime || cfg.DomainNodes() == 1 {
		return nil
	}
	if o.NCCL = cmp.Or(o.NCCL, nvlinkNCCL); o.NCCL != nvlinkNCCL {
		return cli.BadInput(
			"--nccl %s: only NCCL %s decides here for NVLinks between nodes: leave --nccl out, or give "+
				"--set nvlink_domain=%d if there are none", o.NCCL, nvlinkNCCL, cfg.GPUsPerNode)
	}
	return nil
}

// setup determines the fabric, the ranks on it, and the libraries for b. The caller closes the folder.
func (o *BenchOptions) setup(g *cli.Global, b bench.Config) (e emulate.Options, err error) {
	cfg, err := o.fabric(g)
	if err != nil {
		return e, err
	}
	if g.Fabric == "" {
		if _, err := cli.SettleClock(o.Flags, cfg); err != nil {
			return e, err
		}
	}
	gpuTime, err := o.setNodeTime(cfg, g.Fabric != "")
	if err != nil {
		return e, err
	}
	cfg.ThreadOfNode = o.oneThread
	given := emulate.PlaceFlags{Ranks: o.Flags.Changed("ranks"), Nodes: o.Flags.Changed("nodes"),
		GPUs: o.Flags.Changed("gpus-per-node")}
	nodes := cfg.Nodes
	if b.Ranks, err = emulate.Place(cfg, o.Ranks, given, g.Fabric); err != nil {
		return e, &cli.InputError{Err: err}
	}
	if err := o.checkDomain(cfg); err != nil {
		return e, err
	}
	if b.Root < 0 || b.Root >= b.Ranks {
		return e, cli.BadInput("-r %d: the root must be one of the %s: 0 to %d", b.Root, units.Count(b.Ranks, "rank"),
			b.Ranks-1)
	}
	if err := b.Collective.CheckRanks(b.Ranks); err != nil {
		return e, cli.BadInput("%w (nccl-tests skips others)", err)
	}
	if e, err = g.RanksOn(cfg, b, o.Flags, o.NCCL, o.Soft, o.onlyModel); err != nil {
		return e, err
	}
	e.Seeds = max(1, o.Seeds)
	if e.Libraries.CUDA != locate.Soft {
		gpuTime = ""
	}
	if e.Header.Fabric = o.inForce; g.Fabric == "" {
		e.Header.Fabric = o.inForce.Settle(cfg, gpuTime)
	} else { // the links are those of the fabric that is up, which cfg does not know
		e.Header.Fabric.GPUTime = gpuTime
	}
	if o.nodesFrom != "" {
		if note := emulate.OtherNodes(o.nodesFrom, nodes, b.Ranks, cfg); note != "" {
			e.Header.Unused = append(e.Header.Unused, note)
		}
	}
	return e, nil
}

// Bench converts the flags to a configuration.
func (o *BenchOptions) Bench(g *cli.Global, collective string) (b bench.Config, err error) {
	if b.Collective, err = nccl.ParseCollective(collective); err != nil {
		return b, configs.Unknown("collective", collective, nccl.Collectives())
	}
	r := bench.Range{Begin: o.Begin, End: o.End, Step: o.Step, Factor: o.Factor}
	if b.Sizes, err = r.Sizes(); err != nil {
		return b, err
	}
	if !o.Flags.Changed("stepbytes") && !o.Flags.Changed("stepfactor") {
		g.Tell(manyRows(r, len(b.Sizes)))
	}
	if b.Types, err = nccl.ParseDataTypes(o.Type); err != nil {
		return b, err
	}
	if b.Ops, err = nccl.ParseRedOps(o.Op); err != nil {
		return b, err
	}
	b.Root, b.Warmup, b.Iters, b.Check, b.Cycles, b.LogDir = o.Root, o.Warmup, o.Iters, o.Check != 0, o.Cycles, o.LogDir
	b.Stderr = g.Stderr
	return b, nil
}

// rowsToTell is the smallest number of rows that the user is told before they are measured.
const rowsToTell = 100

// manyRows says how many rows a range has that the default step divides, if they are many, and how to have fewer.
func manyRows(r bench.Range, rows int) []string {
	if rows < rowsToTell {
		return nil
	}
	const factor = 2
	few := bench.Range{Begin: max(r.Begin, 1), End: r.End, Factor: factor}
	sizes, err := few.Sizes()
	if err != nil {
		return nil // it cannot: the range is valid, and its sizes are few
	}
	return []string{fmt.Sprintf("%d rows: without -f and -i each size is %d bytes larger than the one before, as with "+
		"nccl-tests; -f %d gives %d rows", rows, r.Step, factor, len(sizes))}
}

// printer returns the printer of the requested format. The JSON document of the last attempt is written to
// outcome too.
func (o *BenchOptions) printer(g *cli.Global, outcome *bytes.Buffer) func() bench.Printer {
	return func() bench.Printer {
		to := printer.NewText(g.Stdout)
		switch {
		case g.JSON:
			to = printer.NewJSON(g.Stdout)
		case o.CSV:
			to = printer.NewCSV(g.Stdout)
		}
		outcome.Reset()
		return &judging{to, o, outcome}
	}
}

// judging is a printer that ends the output with what of the rows is not as the user asked for, and how the run
// compares with its baseline. It keeps the run.
type judging struct {
	bench.Printer
	o       *BenchOptions
	outcome *bytes.Buffer // gets the JSON of the run
}

// Begin begins the output.
func (j *judging) Begin(h bench.Header) error {
	return errors.Join(j.o.run.Begin(h), j.Printer.Begin(h))
}

// Row prints a row.
func (j *judging) Row(r bench.Row) error { return errors.Join(j.o.run.Row(r), j.Printer.Row(r)) }

// End ends the output. Times that say nothing are not judged, and a run that cannot be compared does not keep the
// output from its end.
func (j *judging) End(s bench.Summary) (err error) {
	o, run := j.o, &j.o.run
	o.baseline.result, run.Summary, run.To = nil, &s, printer.NewJSON(j.outcome)
	if s.Verdict.Valid {
		s.Failures, _ = o.limits.allMissed(run.Rows)
	}
	if s.Verdict.Valid && o.baseline.before != nil {
		var result *baseline.Comparison
		if err = run.Play(); err == nil {
			result, err = o.baseline.compare(j.outcome.Bytes())
		}
		if j.outcome.Reset(); result != nil {
			s.Baseline = result
		}
	}
	run.To = printer.NewJSON(j.outcome)
	return errors.Join(run.Play(), j.Printer.End(s), err)
}
