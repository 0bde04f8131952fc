// SPDX-License-Identifier: Apache-2.0

// Package emulate runs the bench on an emulated fabric. It brings the fabric up at a time scale that this host can
// carry, measures, compares each row with the model's expectation, and judges the run.
package emulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl/topofile"
	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// LongestRun is the maximum predicted time of a run with an automatically selected time scale.
const LongestRun = 10 * time.Minute

// Options describe a run.
type Options struct {
	Dir       *state.Dir
	Config    configs.Fabric // with the nodes and GPUs per node of the job
	Shared    string         // name of a fabric that is up, to run on it instead of on Config
	Bench     bench.Config   // what to measure; libraries, environment and expected times are set here
	Libraries locate.Libraries
	Layout    locate.Layout
	Host      host.Machine // the zero value is this machine
	// Scale selects the time scale. If it is nil, Config's is used, or this host is measured if that is 0.
	Scale func(ctx context.Context) (host.Selection, error)
	// Strict makes a run INVALID if something could not be checked. Otherwise that is a note.
	Strict   bool
	Output   Output    // not used by [Expect]
	Log      io.Writer // for messages about the attempts
	Progress Progress  // nil to tell none
	Budget   Budget
	Env      []string // added to the ranks' environment
	// Joined starts a rank on another node than node 0; nil if all nodes are here. With it NCCL chooses the interface for
	// its bootstrap, because the nodes may have network namespaces of their own.
	Joined func(node int) bench.Starter
	// Trace is the folder for the ledgers of the ranks; "" for none. It keeps the ledgers of the last attempt.
	Trace string
	// DecideUpTo is the largest size in bytes that Expect makes NCCL run on a real GPU. Larger ones get the same
	// decision. 0 for the constant DecideUpTo. On the software CUDA nothing is run.
	DecideUpTo int64
	// Seeds is for how many seeds the expected times are printed, from the fabric's own on; 0 or 1 for that alone.
	Seeds int
	// Explain says that expected times are explained: where they go.
	Explain bool
	Header  Header
	// Set are the variables that the ranks' NCCL finds set, without those in Env; nil for the variables of this process.
	Set []variables.Setting
}

// Header is what the header of a run says that its options do not tell.
type Header struct {
	// Decisions names the basis of NCCL's decisions. View is that basis: configs.FabricView or HostView; "" if not known.
	Decisions, View string
	// Fabric is what the fabric has in force, and what GPUs cost in expected times.
	Fabric configs.InForce
	// Unused are notes on what was given and has no effect: variables of Options.Set, and nodes, see [OtherNodes].
	Unused []string
}

// Output is where and how a run is printed.
type Output struct {
	Printer func() bench.Printer // one for each attempt
	// More is the option that shows all reasons for INVALID where only the worst are printed; "" prints all.
	More string
	// LastOnly prints only the attempt of the Outcome, for output that no person reads while it is written.
	LastOnly bool
}

// Variable reads a variable of NCCL as the ranks have it.
func (o *Options) Variable(name string) string {
	for _, entry := range slices.Backward(o.Env) {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	if o.Set == nil {
		return os.Getenv(name)
	}
	return variables.Getenv(o.Set)(name)
}

// Outcome is the outcome of the last attempt; of the one before if the last was stopped.
type Outcome struct {
	Verdict verdict.Verdict
	Result  bench.Result
	Scale   int
}

// Run repeats the measurement until it is VALID, fails, or cannot become VALID. It is refused if this machine has too
// little memory for it.
//
// If ctx is cancelled or the budget is spent, the output has the rows so far, and the verdict is incomplete. A budget
// that is spent is an error only if there is no row.
func Run(ctx context.Context, o Options) (Outcome, error) {
	if err := o.checkMemory(o.Host.AvailableMemory()); err != nil {
		return Outcome{}, err
	}
	before := o.Host.OOMKills()
	out, err := o.run(ctx)
	return out, explainKill(err, before, o.Host.OOMKills())
}

func (o *Options) run(ctx context.Context) (Outcome, error) {
	ctx, stop := o.Budget.Limit(ctx)
	defer stop()
	why, err := o.selectScale(ctx)
	if err != nil {
		return o.notStarted(ctx, o.notes("", ""), nil, err)
	}
	return o.attempts(ctx, why, o.attempt)
}

// selectScale selects the clock and the time scale, and says why.
func (o *Options) selectScale(ctx context.Context) (why string, err error) {
	o.ChooseClock()
	if o.Scale == nil && o.Config.TimeScale == 0 && !o.Config.IsVirtual() {
		o.Scale = o.MeasureHost
	}
	if o.Scale == nil || o.Shared != "" {
		return "", o.refuse()
	}
	s, err := o.Scale(ctx)
	if err != nil {
		return "", err
	}
	o.Config.TimeScale, why = s.Scale, s.Reason
	if err := o.probe(ctx, &why, probed); err != nil {
		return "", err
	}
	if t := o.predict(&o.Config); t > LongestRun && o.Budget.Total == 0 {
		return "", o.tooLong(t, s)
	}
	return why, o.refuse()
}

// ChooseClock makes the clock of a new fabric virtual if nothing is said about the clock or the time scale, and a
// virtual one is possible. It reports whether the clock is virtual.
func (o *Options) ChooseClock() bool {
	if o.Shared == "" && o.Scale == nil && o.Config.TakesVirtualClock(o.Libraries.CUDA == locate.Soft) {
		o.Config.Clock = configs.VirtualClock
	}
	return o.Config.IsVirtual()
}

// attempt makes one attempt with these notes in the header.
func (o *Options) attempt(ctx context.Context, notes []string, printer bench.Printer) (out Outcome, err error) {
	if o.Trace != "" {
		if err := ledger.Clear(o.Trace); err != nil {
			return Outcome{}, err
		}
	}
	j, err := o.Start(ctx)
	if err != nil {
		return o.notStarted(ctx, notes, printer, err)
	}
	defer func() { err = cmp.Or(err, j.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var unprinted error // ends the run
	printed := func(err error) {
		if err != nil && unprinted == nil {
			unprinted = fmt.Errorf("print the result: %w", err)
			stop()
		}
	}
	k := j.Fabric.TimeScale()
	times := expected.New(j.Fabric, o.Node(j.Fabric), o.Variable)
	cfg := o.RanksOn(j)
	cfg.TimeScale, cfg.Virtual = float64(k), j.Fabric.Config.IsVirtual()
	pace := o.newPacer(realScale(j.Fabric), j.Arrived)
	cfg.Planner = pace
	var calls []bench.Case
	cfg.Expected = func(c bench.Case) (bench.Expectation, bool) {
		if !c.InPlace {
			calls = append(calls, c)
		}
		defer func(start time.Time) { pace.expected(c, time.Since(start)) }(time.Now())
		return times.Of(ctx, c)
	}
	begun := false
	begin := func(info bench.Info) error {
		h := o.header(cfg, info, j.Fabric, notes)
		begun = true
		return printer.Begin(h)
	}
	cfg.OnStart = func(info bench.Info) { printed(begin(info)) }
	result, err := bench.Run(ctx, cfg, func(r bench.Row) { printed(printer.Row(r)) })
	result.Virtual = cfg.Virtual
	// The end of the context may have ended the calculation of the last expected time.
	if err = cmp.Or(unprinted, err, ctx.Err()); err != nil {
		out := Outcome{Result: result, Scale: k}
		e := ended{pace, printer, result, func() error {
			if begun {
				return nil
			}
			return begin(bench.Info{})
		}}
		var ranks *bench.RanksError
		switch stopped, _ := whyStopped(ctx); {
		case unprinted != nil:
		case !stopped && begun && errors.As(err, &ranks):
			out.Verdict, err = o.failed(e, ranks)
		default:
			out.Verdict, err = o.incomplete(ctx, e, err)
		}
		return out, err
	}
	v := j.Verdict()
	judgeRows(&v, result, circumstances{j.Concurrent(), j.LinkChanges() != ""})
	o.Unchecked(&v, verdict.CauseFabric, j.JudgeLinkChanges(&v))
	o.Unchecked(&v, verdict.CauseModel, withoutExpected(result, times.Problems))
	o.Unchecked(&v, verdict.CauseJob, withoutLog(result.Info))
	JudgeConnections(&v, result.Info.Topology, result.Transports, o.Nodes(&j.Fabric.Config))
	JudgeTraffic(&v, times.Least(), j.Traffic())
	v.Notes = append(v.Notes, Uncrossed(j.Fabric, times.Crossed())...)
	if text := o.tellBudget(pace); text != "" {
		v.Notes = append(v.Notes, text)
	}
	if err := o.noteSeeds(ctx, &v, j.Fabric, calls); err != nil {
		return Outcome{Verdict: v, Result: result, Scale: k}, err
	}
	return Outcome{Verdict: v, Result: result, Scale: k}, printer.End(o.summary(pace, result, v))
}

// header is the first part of the output of a run on f.
func (o *Options) header(cfg bench.Config, info bench.Info, f *fabric.Fabric, notes []string) bench.Header {
	h := bench.NewHeader(cfg, info)
	h.CUDA, h.Profile, h.Datapath, h.Nodes = o.Libraries.CUDA, f.Config.Name, f.Config.DatapathName(),
		o.Nodes(&f.Config)
	h.InForce, h.Fabric, h.Notes = o.Header.Fabric.Changes(), o.Header.Fabric, slices.Concat(notes, o.uncontrolled(f))
	h.NotIn = o.NotIn(&f.Config, false)
	h.Seed = f.Config.Seed
	return h
}

// realScale is how many times slower than stated time the real time of f passes at least; 0 if it is not real.
func realScale(f *fabric.Fabric) int {
	if f.Config.IsVirtual() {
		return 0
	}
	return f.TimeScale()
}

// RanksOn is the bench's configuration for ranks on the fabric of j.
func (o *Options) RanksOn(j *job.Job) bench.Config {
	cfg := o.Bench
	cfg.RankBinary, cfg.NCCLLibs, cfg.CudartLibs = o.Layout.Rank, o.Libraries.NCCL, o.Libraries.Cudart
	env := append(locate.NetEnv(os.Getenv, o.Joined == nil), o.Libraries.Env(o.Layout))
	if o.Libraries.CUDA == locate.Soft && os.Getenv("DDLEMU_SOFT_GPUS") == "" {
		env = append(env, fmt.Sprintf("DDLEMU_SOFT_GPUS=%d", min(max(o.Bench.Ranks, 8), topofile.MostGPUs)))
	}
	if o.Libraries.CUDA == locate.Soft {
		// The numbers of a node's GPUs begin at 0: NCCL chooses by them among NICs that are equally near to a GPU.
		gpus := o.gpus(&j.Fabric.Config)
		cfg.Device = func(rank, devices int) int { return rank % gpus % devices }
	}
	if o.Trace != "" {
		injection, _ := o.Layout.Injection(os.Getenv)
		env = append(append(env, ledger.Env+"="+o.Trace), injection...)
	}
	cfg.Env = func(rank int) []string { return slices.Concat(j.Env(), env, o.Env, o.domainVariable(rank)) }
	if o.Joined != nil {
		node := o.Node(j.Fabric)
		cfg.Elsewhere = func(rank int) bench.Starter {
			if n := node(rank); n > 0 {
				return o.Joined(n)
			}
			return nil
		}
	}
	cfg.OnStop, cfg.Given = j.Stop, variables.Given(o.Set)
	return cfg
}

// domainVariable tells the software CUDA in which NVLink domain the GPU of a rank is, if that has several nodes: then
// NCCL decides with it.
func (o *Options) domainVariable(rank int) []string {
	c := &o.Config
	if !c.NodeTime || c.DomainNodes() == 1 {
		return nil
	}
	return []string{fmt.Sprintf("DDLEMU_SOFT_NVLINK_DOMAIN=%d", rank/o.gpus(c)/c.DomainNodes())}
}

// Start brings the fabric of the run up, or shares the one that is up.
func (o *Options) Start(ctx context.Context) (*job.Job, error) {
	if o.Shared != "" {
		j, err := job.Share(o.Dir, o.Shared)
		if err == nil {
			j.Fabric.Config.NodeTime = o.Config.NodeTime // the file says what up was asked for
		}
		return j, err
	}
	f, err := fabric.New(&o.Config)
	if err != nil {
		return nil, err
	}
	return job.Start(ctx, o.Dir, f, "bench")
}

// gpus is the number of GPUs of a node of c; if c does not say, as many as the ranks need.
func (o *Options) gpus(c *configs.Fabric) int {
	return cmp.Or(c.GPUsPerNode, max(o.Bench.Ranks/max(c.Nodes, 1), 1))
}

// Node returns the node of a rank on f.
func (o *Options) Node(f *fabric.Fabric) func(rank int) int {
	gpus := o.gpus(&f.Config)
	return func(rank int) int { return rank / gpus }
}

// Nodes is the number of nodes of c that the ranks use. A shared fabric may have more.
func (o *Options) Nodes(c *configs.Fabric) int { return (o.Bench.Ranks-1)/o.gpus(c) + 1 }
