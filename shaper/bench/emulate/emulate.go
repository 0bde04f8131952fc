// SPDX-License-Identifier: Apache-2.0

// Package emulate runs the bench on an emulated fabric: it brings the fabric up
// at a time scale that this host can carry, measures, compares each row with what
// the model expects, and judges the run.
package emulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/host"
	"github.com/ddlemu/ddlemu/shaper/job"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/state"
	"github.com/ddlemu/ddlemu/shaper/verdict"
)

// Doublings is how often a run whose time scale was chosen automatically is made
// again when it was INVALID because of the host: at twice the scale, or at the
// largest one once more.
const Doublings = 2

// LongestRun is the longest run that is started at a time scale chosen
// automatically.
const LongestRun = 10 * time.Minute

// TooLongError refuses a run that would take longer than LongestRun.
type TooLongError struct {
	Time  time.Duration
	Scale int
	Hint  string // what else fits, "" if not known
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("at time scale %d, which this host needs, the run would take %v, more than %v: ask for smaller sizes or fewer iterations, or give --time-scale%s", e.Scale, e.Time, LongestRun, e.Hint)
}

// predict returns the least real time that the run takes on c.
func (o *Options) predict(c *configs.Fabric) time.Duration {
	b, l := &o.Bench, &c.Link
	runs := float64(b.Warmup+b.Iters) * float64(max(b.Cycles, 1)*max(len(b.Types), 1)*max(len(b.Ops), 1))
	if b.Collective.HasInPlace() && !b.OutOfPlace {
		runs *= 2
	}
	once := 0.0
	for _, size := range b.Sizes {
		once += 2 * l.Latency.Seconds()
		if rate := l.PayloadRate() * float64(c.NICsPerNode); rate > 0 {
			once += float64(size) * b.Collective.BusFactor(b.Ranks) / rate
		}
	}
	return time.Duration(once * runs * float64(c.TimeScale) * float64(time.Second))
}

// Options say what to run where.
type Options struct {
	Dir       *state.Dir
	Config    configs.Fabric // nodes and GPUs per node are those of the job
	Shared    string         // run on this fabric, which is up, instead of Config
	Bench     bench.Config   // Ranks, sizes and so on; libraries, environment and expected times are filled in here
	Libraries locate.Libraries
	Layout    locate.Layout
	// Scale selects the time scale. If it is nil, Config's is used, or this host is measured if that is 0.
	Scale   func(ctx context.Context) (host.Selection, error)
	Printer func() bench.Printer // one for each attempt
	// Strict makes a run INVALID of which something could not be checked; otherwise that is
	// a note.
	Strict bool
	// LastOnly prints nothing of an attempt that is followed by another: for output
	// that is not for a person who waits for it.
	LastOnly bool
	Log      io.Writer // for what is said about the attempts
	Env      []string  // added to the ranks' environment
	// DecideUpTo is the largest size that Expect makes NCCL run, larger ones being taken to
	// be decided as this one is; 0 for the constant of that name.
	DecideUpTo int64
	// Decisions says by what NCCL decides, for the header.
	Decisions string
	// View is what that is, configs.FabricView or HostView; "" if not known.
	View string
}

// Outcome is the last attempt.
type Outcome struct {
	Verdict verdict.Verdict
	Result  bench.Result
	Scale   int
}

// Run measures until a run is VALID, fails, or is INVALID for good.
func Run(ctx context.Context, o Options) (Outcome, error) {
	why := ""
	if o.Scale == nil && o.Config.TimeScale == 0 {
		o.Scale = o.measureHost
	}
	if o.Scale != nil && o.Shared == "" {
		s, err := o.Scale(ctx)
		if err != nil {
			return Outcome{}, err
		}
		o.Config.TimeScale, why = s.Scale, s.Reason
		if err := o.probe(ctx, &why); err != nil {
			return Outcome{}, err
		}
		if t := o.predict(&o.Config); t > LongestRun {
			return Outcome{}, o.tooLong(t, s)
		}
	}
	return o.attempts(ctx, why, o.once)
}

// measureHost selects the time scale by a measurement of this host.
func (o *Options) measureHost(ctx context.Context) (host.Selection, error) {
	w, err := o.workload()
	if err != nil {
		return host.Selection{}, err
	}
	return host.SelectScale(ctx, w)
}

func (o *Options) workload() (host.Workload, error) {
	f, err := fabric.New(&o.Config)
	return host.Workload{Fabric: f, Ranks: o.Bench.Ranks, Message: host.MessageSize(slices.Min(o.Bench.Sizes), o.Bench.Ranks)}, err
}

// tooLong refuses a run that would take t, in a *configs.Error. If this host was measured, the error names the
// profile on which the run would be short enough.
func (o *Options) tooLong(t time.Duration, s host.Selection) error {
	e := &TooLongError{Time: t.Round(time.Second), Scale: o.Config.TimeScale}
	if s.Host.Threads > 0 {
		w, err := o.workload()
		if err != nil {
			return err
		}
		e.Hint = "; " + w.Nearest(s.Host, func(c *configs.Fabric) bool { return o.predict(c) <= LongestRun })
	}
	return configs.Errorf("", "%w", e)
}

// attempts calls once until a run is VALID, fails, or is INVALID for good. That is sound
// because other work on this host makes a run worse, never better. why is of the first
// time scale.
func (o *Options) attempts(ctx context.Context, why string, once func(ctx context.Context, notes []string, printer bench.Printer) (Outcome, error)) (Outcome, error) {
	retry := "" // why this attempt is made, in the header
	for attempt := 1; ; attempt++ {
		more := attempt <= Doublings && o.Scale != nil && o.Shared == ""
		printer := o.Printer()
		var later *deferred
		if o.LastOnly && more {
			later = &deferred{to: printer}
			printer = later
		}
		out, err := once(ctx, o.notes(why, retry), printer)
		if again := err == nil && out.Verdict.Host && more; !again {
			return out, errors.Join(err, later.play())
		}
		o.Config.TimeScale = min(max(2*out.Scale, needed(out)), link.MaxTimeScale)
		if o.Config.TimeScale != out.Scale {
			why = fmt.Sprintf("chosen for this host, because %d was too small", out.Scale)
		}
		retry = retryNote(attempt, out)
		fmt.Fprintf(o.Log, "ddlemu: INVALID at time scale %d: %s\nddlemu: once more at time scale %d\n", out.Scale, out.Verdict.Reasons[0], o.Config.TimeScale)
	}
}

// retryNote says of the attempt after the given one which it is, and why it is made.
func retryNote(attempt int, out Outcome) string {
	return fmt.Sprintf("attempt %d of %d at most: attempt %d, at time scale %d, was INVALID because of this host: %s", attempt+1, Doublings+1, attempt, out.Scale, out.Verdict.Reasons[0])
}

// notes are the header's: why this time scale, why this attempt, and by what NCCL decides.
func (o *Options) notes(why, retry string) []string {
	var notes []string
	if why != "" {
		notes = append(notes, fmt.Sprintf("time scale %d %s", o.Config.TimeScale, why))
	}
	if retry != "" {
		notes = append(notes, retry)
	}
	return append(append(notes, "decisions: "+o.Decisions), o.Caveats()...)
}

// Caveats are what of the decisions on the software CUDA may not be as on a real machine.
func (o *Options) Caveats() []string {
	c := &o.Config
	if o.Libraries.CUDA != locate.Soft || o.gpus(c) < 2 || c.NICsPerNode < 2 {
		return nil
	}
	if o.Bench.Collective == nccl.AllToAll || o.Bench.Collective == nccl.SendRecv {
		return nil // whose flows go by the NIC beside each GPU
	}
	no := "the host's view has no NVLink between the GPUs of a node"
	switch {
	case o.View == configs.FabricView && c.NVLinksPerGPU > 0 || o.View == "":
		return nil
	case o.View == configs.FabricView:
		no = "nvlinks_per_gpu is 0"
	}
	return []string{fmt.Sprintf("%s: where nodes have NVLink, NCCL may use more of their %d NICs at once", no, c.NICsPerNode)}
}

// What an operation itself costs this host (launch, hand-over between threads) is
// in no measurement of threads and memory, and matters most for the smallest
// message. A short run of it shows how much larger the time scale must be.
const (
	probeIters = 20
	probeOff   = 2.5 // percent of the expected time that may be the host's: half of what is allowed
)

// probe measures the smallest size and raises the time scale if that needs it.
func (o *Options) probe(ctx context.Context, why *string) error {
	p := *o
	p.Bench.Sizes = []int64{slices.Min(o.Bench.Sizes)}
	p.Bench.Iters, p.Bench.Warmup, p.Bench.Cycles, p.Bench.Check = probeIters, 2, 1, false
	p.Bench.Types, p.Bench.Ops = first(p.Bench.Types), first(p.Bench.Ops)
	if p.predict(&p.Config) > LongestRun/10 {
		return nil // so long that an operation's own cost does not count
	}
	out, err := p.once(ctx, nil, nothing{})
	if err != nil {
		return err
	}
	if k := needed(out); k > out.Scale {
		o.Config.TimeScale = k
		*why = fmt.Sprintf("chosen for this host: at %d it would add %.0f %% to the time of %d bytes", out.Scale, least(out.Result), p.Bench.Sizes[0])
	}
	return nil
}

// nothing prints nothing.
type nothing struct{}

func (nothing) Begin(bench.Header) error { return nil }
func (nothing) Row(bench.Row) error      { return nil }
func (nothing) End(bench.Summary) error  { return nil }

// deferred keeps what is printed until play.
type deferred struct {
	to    bench.Printer
	calls []func() error
}

func (d *deferred) Begin(h bench.Header) error {
	d.calls = append(d.calls, func() error { return d.to.Begin(h) })
	return nil
}

func (d *deferred) Row(r bench.Row) error {
	d.calls = append(d.calls, func() error { return d.to.Row(r) })
	return nil
}

func (d *deferred) End(s bench.Summary) error {
	d.calls = append(d.calls, func() error { return d.to.End(s) })
	return nil
}

// play prints what was kept; nothing was if d is nil.
func (d *deferred) play() error {
	if d == nil {
		return nil
	}
	for _, call := range d.calls {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

func first[T any](s []T) []T { return s[:min(len(s), 1)] }

// needed is the time scale, a power of two, at which no row of out would be more
// than probeOff percent longer than expected; MaxTimeScale at most.
func needed(out Outcome) int {
	k := 1
	for want := float64(out.Scale) * least(out.Result) / probeOff; float64(k) < want && k < link.MaxTimeScale; {
		k *= 2
	}
	return k
}

// least is the worst row's difference in percent, of each row the better half: a
// hiccup hits one of them.
func least(r bench.Result) float64 {
	worst := 0.0
	for _, row := range r.Rows {
		better := math.Inf(1)
		for _, m := range row.Measurements() {
			if m.Known {
				better = min(better, m.Diff)
			}
		}
		if !math.IsInf(better, 1) {
			worst = max(worst, better)
		}
	}
	return worst
}

// once makes one attempt on a fabric of its own, with these notes in the header.
func (o *Options) once(ctx context.Context, notes []string, printer bench.Printer) (out Outcome, err error) {
	j, err := o.start(ctx)
	if err != nil {
		return Outcome{}, err
	}
	defer func() {
		if cerr := j.Close(); err == nil {
			err = cerr
		}
	}()
	k := j.Fabric.TimeScale()
	times := expected.New(j.Fabric, o.node(j.Fabric), os.Getenv)
	cfg := o.ranksOn(j)
	cfg.TimeScale = float64(k)
	cfg.Expected = func(c bench.Case) (bench.Expectation, bool) { return times.Of(ctx, c) }
	cfg.OnStart = func(info bench.Info) {
		h := bench.NewHeader(o.Bench, info)
		h.TimeScale, h.CUDA, h.Profile, h.Datapath, h.Nodes = float64(k), o.Libraries.CUDA, j.Fabric.Config.Name, j.Fabric.Config.DatapathName(), o.nodes(j.Fabric)
		h.Notes = notes
		err = printer.Begin(h)
	}
	result, err := bench.Run(ctx, cfg, func(r bench.Row) {
		if perr := printer.Row(r); perr != nil && err == nil {
			err = perr
		}
	})
	if err == nil {
		err = ctx.Err() // of the last row's expected time nobody else asks
	}
	if err != nil {
		return Outcome{Result: result, Scale: k}, err
	}
	v := j.Verdict()
	judgeRows(&v, result, j.Beside())
	o.unchecked(&v, withoutExpected(result, times.Problems))
	o.unchecked(&v, withoutLog(result.Info))
	judgeWay(&v, result, o.nodes(j.Fabric))
	judgeTraffic(&v, times.Least(), j.Traffic())
	return Outcome{Verdict: v, Result: result, Scale: k}, printer.End(bench.NewSummary(result, v.Word, v.Reasons, v.Notes))
}

// ranksOn is the bench's configuration for ranks that find j.
func (o *Options) ranksOn(j *job.Job) bench.Config {
	cfg := o.Bench
	cfg.RankBinary, cfg.NCCLLibs, cfg.CudartLibs = o.Layout.Rank, o.Libraries.NCCL, o.Libraries.Cudart
	env := append(locate.NetEnv(os.Getenv), o.Libraries.Env(o.Layout))
	if o.Libraries.CUDA == locate.Soft && os.Getenv("DDLEMU_SOFT_GPUS") == "" {
		env = append(env, fmt.Sprintf("DDLEMU_SOFT_GPUS=%d", max(o.Bench.Ranks, 8)))
	}
	cfg.Env = func(int) []string { return slices.Concat(j.Env(), env, o.Env) }
	return cfg
}

func (o *Options) start(ctx context.Context) (*job.Job, error) {
	if o.Shared != "" {
		return job.Share(o.Dir, o.Shared)
	}
	f, err := fabric.New(&o.Config)
	if err != nil {
		return nil, err
	}
	return job.Start(ctx, o.Dir, f, "bench")
}

// gpus is how many GPUs a node of c has: as many as the ranks take, if c does not say.
func (o *Options) gpus(c *configs.Fabric) int {
	return cmp.Or(c.GPUsPerNode, max(o.Bench.Ranks/max(c.Nodes, 1), 1))
}

func (o *Options) node(f *fabric.Fabric) func(rank int) int {
	gpus := o.gpus(&f.Config)
	return func(rank int) int { return rank / gpus }
}

// nodes is how many nodes of f the ranks are on: fewer than all where f is shared and has
// room for more ranks.
func (o *Options) nodes(f *fabric.Fabric) int { return o.node(f)(o.Bench.Ranks-1) + 1 }

// judgeRows adds what the rows say: time outside the model, and wrong values. Beside other
// jobs a row may take longer than the model, which has this one alone on the fabric.
func judgeRows(v *verdict.Verdict, result bench.Result, beside int) {
	longer := 0.0
	for _, r := range result.Rows {
		for _, m := range r.Measurements() {
			place := "out of place"
			if m.InPlace {
				place = "in place"
			}
			switch {
			case m.Checked && m.Wrong > 0:
				v.Add(false, fmt.Sprintf("%d bytes %s: %d wrong elements: %s", r.Size, place, m.Wrong, m.Mismatch))
			case m.Off && m.Diff > 0 && beside > 0:
				longer = max(longer, m.Diff)
			case m.Off && m.Diff > 0:
				v.Add(true, fmt.Sprintf("%d bytes %s took %v, %.1f %% more than the model's %v: limited by this host", r.Size, place, m.Time.Round(10*time.Nanosecond), m.Diff, m.Expected.Round(10*time.Nanosecond)))
			case m.Off:
				v.Add(false, fmt.Sprintf("%d bytes %s took %v, %.1f %% less than the model's %v: some traffic went around the emulated links, or the model is wrong", r.Size, place, m.Time.Round(10*time.Nanosecond), -m.Diff, m.Expected.Round(10*time.Nanosecond)))
			}
		}
	}
	if longer > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("rows took up to %.1f %% more than expected: the expected time is for this job alone, and %s used the fabric at the same time", longer, units.Count(beside, "other job")))
	}
}

// unchecked adds what could not be checked, "" for nothing.
func (o *Options) unchecked(v *verdict.Verdict, what string) {
	switch {
	case what == "":
	case o.Strict:
		v.Add(false, what)
	default:
		v.Notes = append(v.Notes, what)
	}
}

// withoutExpected says how many times are not compared with the model's, and why. Rows
// that move nothing have none.
func withoutExpected(result bench.Result, problems []string) string {
	times, without := 0, 0
	for _, r := range result.Rows {
		for _, m := range r.Measurements() {
			if times++; !m.Known && r.Size > 0 {
				without++
			}
		}
	}
	if without == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d times have no expected time and are judged by their messages alone: %s", without, times, strings.Join(problems, "; "))
}

// withoutLog says that judgeWay knows nothing, and why.
func withoutLog(info bench.Info) string {
	if info.Topology != nil {
		return ""
	}
	return fmt.Sprintf("the nodes that NCCL counted and its connections are not checked: %s", cmp.Or(info.LogProblem, "NCCL's log does not tell: unset NCCL_DEBUG"))
}

// judgeWay checks NCCL's own view: that it saw the emulated nodes as nodes, and
// used our net between them.
func judgeWay(v *verdict.Verdict, result bench.Result, nodes int) {
	if t := result.Info.Topology; t != nil && t.Nodes != nodes {
		v.Add(false, fmt.Sprintf("NCCL counted %d nodes, the ranks are on %d: some traffic went around the emulated links", t.Nodes, nodes))
	}
	for way, n := range result.Transports {
		if len(way) > 4 && way[:4] == "NET/" && way != "NET/goemu" {
			v.Add(false, fmt.Sprintf("%d connections went over %s", n, way))
		}
	}
}

// judgeTraffic checks that each node's NICs carried what the collectives must move
// between it and the others at least, whatever the schedule.
func judgeTraffic(v *verdict.Verdict, least map[int]job.Traffic, got []job.Traffic) {
	for node, g := range got {
		l := least[node]
		if g.Out < l.Out || g.In < l.In {
			v.Add(false, fmt.Sprintf("node%d sent %d bytes and received %d, the collectives need %d and %d at least: some traffic went around the emulated links", node, g.Out, g.In, l.Out, l.In))
		}
	}
}
