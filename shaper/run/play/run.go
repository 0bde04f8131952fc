// SPDX-License-Identifier: Apache-2.0

package play

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/job"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/p2p"
)

// Options describe a replay.
type Options struct {
	// On has the fabric, the libraries, and in Bench the number of ranks, their user and output. What Bench says of
	// measurements is not used.
	On       emulate.Options
	Workload *workload.Index
	Steps    int  // to play: the file from its beginning, again and again; 0 for those of the file
	NoCheck  bool // do not compare values
	// Groups, if not nil, is the schedule that the workload's calls were made from. Then their values are the values in
	// its ranks' memories, and are compared once, before the steps are measured.
	Groups *p2p.Plan
	// Repeat is how often the steps are played, each time after all ranks have ended; 0 for once.
	Repeat int
	// GOAL, if not nil, gets the job of a forecast as GOAL, its calls as the sends and receives of NCCL.
	GOAL io.Writer
	// Interval says that the model also plays the other case of a workload whose source gives only intervals for times.
	Interval bool

	variables jobVariables
}

// Result is the outcome of a replay. All times are stated times.
type Result struct {
	Facts   Facts
	Verdict verdict.Verdict
	Scale   int
	Time    time.Duration // of all steps
	Steps   []Step
	Usual   Usual // of Steps
	Calls   []Calls
	Inside  Inside
	// Composition are the parts of the time of all steps. Together they are Time.
	Composition []Share
	// Hops are what was used of the hops of the fabric, the busiest first. Window is the width of the windows of their
	// peaks.
	Hops   []HopUse
	Window time.Duration
	// Checked and Wrong are the elements that were compared, and the elements that were wrong.
	Checked, Wrong int64
	// Forecast says that nothing was played: Steps and Calls are from the model, and there is no verdict.
	Forecast bool
	// Model has the steps of the model, if there is one. Problem says why there is none.
	Model   []Step
	Problem string
	// Interval is the interval of the time of all steps in the model, if Options.Interval asks for it.
	Interval Interval
	Notes    []string
	// InForce is what the fabric has in force, and what GPUs cost in the expected times.
	InForce configs.InForce
	// NotIn is what the times lack of a real run.
	NotIn []string
	// Interrupted is how many steps there should have been, 0 if it was not stopped before.
	Interrupted int

	spans [][]bench.Span // by rank, not divided by Scale
}

// Run plays a workload. A rank that fails is a [*bench.RanksError]. If ctx is cancelled, the result has the steps so
// far, and comes with the error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	ctx, stop := o.On.Budget.Limit(ctx)
	defer stop()
	why, err := o.selectScale(ctx)
	if err != nil {
		return nil, err
	}
	for n := 1; ; n++ {
		r, err := o.attempt(ctx, (*attempt).run)
		if err != nil && emulate.Spent(ctx) && r != nil && len(r.Steps) > 0 {
			return r, nil
		}
		if err != nil && emulate.Spent(ctx) {
			return nil, configs.Errorf("",
				"%s: it was spent before a step was played: give a larger budget, or a workload with smaller steps",
				o.On.Budget.Text())
		}
		if err != nil {
			return r, err
		}
		if why != "" {
			r.Notes = append(r.Notes, fmt.Sprintf("time scale %d %s", r.Scale, why))
		}
		if !r.Verdict.SlowHost || o.On.Scale == nil || o.On.Shared != "" || n > emulate.Doublings {
			return r, nil
		}
		o.On.Config.TimeScale = min(2*r.Scale, link.MaxTimeScale)
		why = fmt.Sprintf("chosen for this host, because %d was too small", r.Scale)
		fmt.Fprintf(o.On.Log, "ddlemu: INVALID at time scale %d: %s\nddlemu: once more at time scale %d\n", r.Scale,
			r.Verdict.Summary, o.On.Config.TimeScale)
	}
}

// prepare refuses what cannot be played, before anything is started.
func (o *Options) prepare() error {
	if err := o.complete(); err != nil {
		return err
	}
	return o.On.CheckBuffers(o.bufferBytes())
}

// complete checks the ranks, counts the steps, and gives the ranks the variables of the job.
func (o *Options) complete() error {
	if ranks := o.Workload.Workload.Head.Ranks; ranks != o.On.Bench.Ranks {
		return configs.Errorf("", "the workload has %s, not %d", units.Count(ranks, "rank"), o.On.Bench.Ranks)
	}
	steps, err := StepsOf(o.Workload)
	if err != nil {
		return err
	}
	if o.Steps == 0 {
		o.Steps = steps
	}
	o.On.Bench.Sizes, o.On.Bench.Iters = []int64{smallest(o.Workload)}, 1
	o.variables = newJobVariables(o.Workload.Workload.Head.NCCL, os.LookupEnv, o.On.Variable)
	o.On.Env = slices.Concat(o.On.Env, o.variables.env())
	return nil
}

// smallest is the size of the smallest call that moves something; 1 if there is none.
func smallest(ix *workload.Index) int64 {
	least := int64(0)
	for i := range ix.Workload.Ops {
		for part := range ix.Workload.Ops[i].Parts() {
			if n := part.Bytes(1); n > 0 && (least == 0 || n < least) {
				least = n
			}
		}
	}
	return max(least, 1)
}

// bufferBytes are the bytes of the buffers of all ranks: on each stream as many as its largest operation needs, for the
// input and for the output.
func (o *Options) bufferBytes() uint64 {
	if o.Groups != nil {
		return o.Groups.Bytes()
	}
	sum := uint64(0)
	for i := range o.Workload.Programs {
		p := &o.Workload.Programs[i]
		largest := map[int32]int64{}
		for n := range p.Calls {
			c := &p.Calls[n]
			op, bytes := &o.Workload.Workload.Ops[c.Op], int64(0)
			for part := range op.Parts() {
				place, _ := o.Workload.Place(part.Comm, p.Ranks[0])
				bytes += part.Bytes(len(o.Workload.Comms[place.Comm].Ranks))
			}
			if c.Stream >= 0 {
				largest[c.Stream] = max(largest[c.Stream], bytes)
			}
		}
		for _, bytes := range largest {
			sum += 2 * uint64(bytes) * uint64(len(p.Ranks))
		}
	}
	return sum
}

// selectScale selects the clock, and on a real one the time scale, and says why.
func (o *Options) selectScale(ctx context.Context) (why string, err error) {
	o.On.ChooseClock()
	if o.On.Scale == nil && o.On.Config.TimeScale == 0 && !o.On.Config.IsVirtual() {
		o.On.Scale = o.On.MeasureHost
	}
	if o.On.Scale == nil || o.On.Shared != "" {
		return "", nil
	}
	var s host.Selection
	if s, err = o.On.Scale(ctx); err != nil {
		return "", err
	}
	o.On.Config.TimeScale = s.Scale
	return s.Reason, nil
}

// attempt brings the fabric up, starts the ranks, and lets run use them.
func (o *Options) attempt(ctx context.Context, run func(*attempt, context.Context) (*Result, error)) (r *Result,
	err error) {
	if o.On.Trace != "" {
		if err := ledger.Clear(o.On.Trace); err != nil {
			return nil, err
		}
	}
	j, err := o.On.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, j.Close()) }()
	cfg := o.On.RanksOn(j)
	cfg.TimeScale, cfg.Virtual = float64(j.Fabric.TimeScale()), j.Fabric.Config.IsVirtual()
	o.say(units.Count(cfg.Ranks, "rank")+" start", -1)
	ranks, err := bench.StartRanks(ctx, cfg)
	if err != nil {
		return nil, err
	}
	a := &attempt{o: o, ranks: ranks, job: j, fabric: j.Fabric, cfg: cfg}
	r, err = run(a, ctx)
	err = cmp.Or(err, ranks.Close())
	if r == nil {
		return nil, err
	}
	r.Scale = j.Fabric.TimeScale()
	r.Notes = append(slices.Clone(o.On.Header.Unused), r.Notes...)
	r.InForce, r.NotIn = o.On.Header.Fabric, o.On.NotIn(&j.Fabric.Config, r.Forecast)
	if r.Forecast {
		r.NotIn = append([]string{emulate.NoRun}, r.NotIn...)
	}
	if text := j.Fabric.Uncontrolled(j.Fabric.All(), false); text != "" {
		r.Notes = append(r.Notes, text)
	}
	switch {
	case err != nil:
		a.judgeStopped(ctx, r)
	case !r.Forecast:
		a.judge(j, r)
	}
	return r, err
}

// say tells the progress.
func (o *Options) say(what string, left time.Duration) {
	if o.On.Progress != nil {
		o.On.Progress(what, left)
	}
}

// attempt is one run of the ranks.
type attempt struct {
	o      *Options
	ranks  *bench.Ranks
	job    *job.Job
	fabric *fabric.Fabric
	cfg    bench.Config
	facts  Facts

	measured bool // the ledgers are told from when on the steps are measured
}

func (a *attempt) run(ctx context.Context) (*Result, error) {
	var r Result
	steps, err := a.begin(ctx, &r)
	if err != nil {
		return a.stopped(ctx, &r, nil, nil), err
	}
	plans, err := a.planner(steps, false).plans()
	if err != nil {
		return nil, err
	}
	before := a.job.HopCounters()
	for range max(a.o.Repeat, 1) {
		a.facts.begun = a.job.Time()
		played, err := a.play(ctx, plans, "plays", false)
		if err = cmp.Or(err, a.noteWarmUp(played)); err != nil {
			return a.stopped(ctx, &r, plans, played), err
		}
		a.values(&r, plans, played)
		a.count(plans)
		a.facts.plans, a.facts.Steps = plans, steps
		r.Facts = a.facts
		a.measure(&r, plans, played)
	}
	load := carried(before, a.job.HopCounters(), a.fabric.TimeScale())
	a.model(ctx, &r)
	r.Facts.occupied = a.facts.occupied
	r.setHops(load)
	return &r, a.ranks.Destroy(ctx)
}

// begin does what comes before the steps are measured. It returns the number of steps for which there is time.
func (a *attempt) begin(ctx context.Context, r *Result) (int, error) {
	if err := a.connect(ctx); err != nil {
		return 0, err
	}
	if err := a.decide(ctx); err != nil {
		return 0, err
	}
	if err := a.warmUp(ctx, r); err != nil {
		return 0, err
	}
	return a.affordable(ctx, r)
}

// planner plays steps. On a virtual clock a comparison of values takes no time, so the last calls of the replay are
// compared; on the real one the calls of the warm-up.
func (a *attempt) planner(steps int, warmUp bool) *planner {
	p := &planner{ix: a.o.Workload, steps: steps, once: warmUp}
	if !a.o.NoCheck && a.o.Groups == nil && warmUp != a.cfg.Virtual && a.ranks.DecidesOnly() {
		p.check = checkLast
	}
	return p
}

// affordable is the number of steps for which there is time. With a budget one step is played to know what it takes.
func (a *attempt) affordable(ctx context.Context, r *Result) (int, error) {
	steps, b := a.o.Steps, &a.o.On.Budget
	if b.Total == 0 || steps == 1 {
		return steps, nil
	}
	plans, err := (&planner{ix: a.o.Workload, steps: 1}).plans()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if _, err := a.play(ctx, plans, "plays a step to plan the budget", false); err != nil {
		return 0, err
	}
	const reserve = 1.25 // a step can take longer than the first one
	fit := int(float64(b.Left()) / float64(time.Since(began)) / reserve)
	if fit >= steps {
		return steps, nil
	}
	fit = max(fit, 1)
	r.Notes = append(r.Notes, fmt.Sprintf("%s: %d of %d steps", b.Text(), fit, steps))
	return fit, nil
}

// warmUp plays each call once, so that the ranks are connected.
func (a *attempt) warmUp(ctx context.Context, r *Result) error {
	steps, err := StepsOf(a.o.Workload)
	if err != nil {
		return err
	}
	plans, err := a.planner(min(steps, a.o.Steps), true).plans()
	if err != nil {
		return err
	}
	played, err := a.play(ctx, plans, "warms up", true)
	if err == nil {
		a.values(r, plans, played)
	}
	return err
}

// noteWarmUp notes, beside the ledgers, when the ranks have begun the first steps that are measured. What they did
// before connected them, or planned the budget. A rank that has not begun has no time.
func (a *attempt) noteWarmUp(played []bench.Played) error {
	if a.o.On.Trace == "" || a.measured {
		return nil
	}
	from := int64(0)
	for i := range played {
		if begin := played[i].Begin; begin > 0 && (from == 0 || begin < from) {
			from = begin
		}
	}
	if from == 0 {
		return nil
	}
	a.measured = true
	return ledger.WriteMeasured(a.o.On.Trace, from)
}

// play makes the ranks play. With values, the values of Options.Groups are compared.
func (a *attempt) play(ctx context.Context, plans []*plan, what string, values bool) ([]bench.Played, error) {
	began, total := time.Now(), 0
	done := make([]int, len(plans))
	for _, p := range plans {
		total += len(p.items)
	}
	progress := func(rank, n int) {
		done[rank] = n
		sum := 0
		for _, d := range done {
			sum += d
		}
		left := time.Duration(-1)
		if sum > 0 {
			left = time.Duration(float64(time.Since(began)) * float64(total-sum) / float64(sum))
		}
		a.o.say(fmt.Sprintf("%s: %d of %d operations", what, sum, total), left)
	}
	a.o.say(what, -1)
	return a.ranks.Play(ctx, bench.Program{
		Write: func(rank int, out io.Writer) error {
			return plans[rank].write(out, a.o.Groups, values)
		},
		Ops:      func(rank int) int { return len(plans[rank].items) },
		Progress: progress,
	})
}

// values adds what was compared.
func (a *attempt) values(r *Result, plans []*plan, played []bench.Played) {
	for rank, p := range played {
		r.Checked += p.Checked
		r.Wrong += p.Wrong
		if p.Wrong == 0 || p.WrongOp < 0 || p.WrongOp >= len(plans[rank].items) {
			continue
		}
		name := a.facts.describe(&plans[rank].items[p.WrongOp])
		a.facts.wrong = append(a.facts.wrong, fmt.Sprintf("%s: rank %d has %s, and %d elements are wrong", name, rank,
			p.Mismatch, p.Wrong))
	}
}

func (a *attempt) measure(r *Result, plans []*plan, played []bench.Played) {
	spans := make([][]bench.Span, len(played))
	for i := range played {
		spans[i] = played[i].Spans
	}
	r.spans = spans
	if a.o.Repeat <= 1 {
		r.Usual = usualOf(plans)
	}
	a.facts.measure(r, plans, spans, a.cfg.TimeScale)
}

// measure adds the steps of plans and their parts to r, and sets the calls. Times of the clock are divided by scale.
func (f *Facts) measure(r *Result, plans []*plan, spans [][]bench.Span, scale float64) {
	steps := measureSteps(plans, spans, scale)
	met := meet(f.Workload, plans, spans)
	r.Composition = compose(plans, spans, met.until, steps, scale)
	r.Steps, r.Time = append(r.Steps, steps...), r.Time+timeOf(steps)
	r.Calls, r.Inside = measureCalls(met.all, scale), f.insideOf(met.all)
	f.choices(r)
}

// model compares with the model, which also finds out what NCCL has decided on groups.
func (a *attempt) model(ctx context.Context, r *Result) {
	spans, err := a.facts.expected(ctx)
	a.facts.choices(r)
	if err != nil {
		r.Problem = err.Error()
		return
	}
	r.Model = measureSteps(a.facts.plans, spans, 1)
	if a.o.Interval {
		if r.Interval, err = a.facts.intervalOf(ctx, r.Model); err != nil {
			r.Notes = append(r.Notes, "only one case of the computations of unknown times: "+err.Error())
		}
	}
	for _, c := range measureCalls(meet(a.o.Workload, a.facts.plans, spans).all, 1) {
		i := slices.IndexFunc(r.Calls, func(got Calls) bool {
			return got.Func == c.Func && got.Comm == c.Comm && got.Ranks == c.Ranks && got.Size == c.Size
		})
		if i >= 0 {
			r.Calls[i].Known, r.Calls[i].Expected = true, c.Mean
		}
	}
}
