// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/plan"
)

// Progress says what a run does now, and about how long it takes until all rows are measured; below 0 if not known.
type Progress func(what string, left time.Duration)

// pacer is a bench.Planner. It tells the progress and, with a budget, plans each row by what was measured so far.
type pacer struct {
	show   Progress // nil to tell nothing
	budget Budget
	now    func() time.Time
	halves int
	scale  int                            // the time scale, 0 for a virtual clock
	least  func(size int64) time.Duration // real time of a call, by the model

	began   time.Time
	started time.Duration     // from began to the first row
	rows    int               // in all; 0 before the first one
	left    []bench.Case      // from the present row on
	got     []plan.Got        // of each row so far
	given   []plan.Iterations // the latest plan, for the row at which it was made and those after it
	planned time.Time
	at      int // of the present row in given
	half    half
	shown   time.Time
	arrived func() uint64 // bytes of the job's messages, nil if nobody knows

	mu    sync.Mutex // expected times are calculated beside the ranks
	costs plan.Costs
}

// half is the present half of a row.
type half struct {
	began   time.Time
	bytes   uint64 // that had arrived then
	timed   time.Time
	from    uint64        // bytes that had arrived then
	perCall float64       // bytes of a call; 0 if not known
	c       bench.Case    // whose timed iterations run
	call    time.Duration // of this half, as far as it has come; 0 if not known
}

// progress tells a step of a run for which there is no pacer.
func (o *Options) progress(what string) {
	if o.Progress != nil {
		o.Progress(what, -1)
	}
}

// within is the progress of a run that is itself one step: why it is made.
func (o *Options) within(why string) Progress {
	if o.Progress == nil {
		return nil
	}
	return func(what string, _ time.Duration) { o.Progress(why+": "+what, -1) }
}

// replan is the least time between two plans, and between two predictions, because a table can have 100 000 rows.
const replan = 500 * time.Millisecond

// hostRate is the bytes per ns and core that the software CUDA is taken to move until a call was measured.
const hostRate = 0.5

// newPacer makes the pacer of a run on a fabric at time scale k, 0 for a virtual clock. arrived tells how many bytes of
// the run's messages have arrived; nil if nobody knows.
func (o *Options) newPacer(k int, arrived func() uint64) *pacer {
	b := &o.Bench
	p := &pacer{show: o.Progress, budget: o.Budget, now: time.Now, began: time.Now(), halves: 1, scale: k,
		arrived: arrived}
	if b.Collective.HasInPlace() && !b.OutOfPlace {
		p.halves = 2
	}
	p.costs.PerByte = float64(b.Ranks) * b.Collective.PortFactor(b.Ranks) / (hostRate * float64(runtime.NumCPU()))
	p.least = func(size int64) time.Duration { return o.callTime(&o.Config, size) * time.Duration(k) }
	return p
}

// Step tells a step that is not part of a row.
func (p *pacer) Step(what string) {
	if p.show != nil {
		p.show(what, -1)
	}
}

// Next plans a row.
func (p *pacer) Next(left []bench.Case) (bench.Case, bool) {
	if p.rows == 0 {
		p.rows, p.started = len(left), p.now().Sub(p.began)
	}
	p.left = left
	c := left[0]
	if p.budget.Total > 0 {
		given := p.ofPresent()
		if given.Iters == 0 && len(p.got) == 0 {
			given = plan.Iterations{Warmup: 1, Iters: 1} // before anything was measured, the plan may be wrong
		}
		p.got = append(p.got, plan.Got{Size: c.Size, Asked: c.Iters, Dropped: given.Iters == 0, Over: given.Iters > 0})
		if given.Iters == 0 {
			return c, false
		}
		c.Warmup, c.Iters, c.Try = given.Warmup, given.Iters, true
	}
	p.begin(c)
	return c, true
}

// Tried plans the row again by what a call took. The first one may have made connections: a plan by it is too short, so
// unless it leaves everything there is a second one.
func (p *pacer) Tried(c bench.Case, done int, took time.Duration) bench.Case {
	p.add(func(costs *plan.Costs) { costs.Call(c.Size, took) })
	p.given = nil
	given, asked := p.ofPresent(), p.left[0]
	c.Warmup, c.Iters = min(max(given.Warmup, 1), asked.Warmup), max(given.Iters, 1)
	const least = 4 // calls of a row with both halves
	c.Try = done == 1 && c.Iters < asked.Iters && least*took < p.available()
	return c
}

// Measured notes what half a row took.
func (p *pacer) Measured(c bench.Case, pace bench.Pace) {
	p.add(func(costs *plan.Costs) {
		call, known := pace.Timed/time.Duration(max(c.Iters, 1)), costs.OfCall(plan.Row{Size: c.Size})
		if off := call - known; off.Abs() > known/4 {
			p.given = nil // it was made with what is now known to be wrong
		}
		costs.Call(c.Size, call)
		costs.Rest(c.Size, max(pace.Half-pace.Timed-pace.Untimed, 0))
	})
	if last := p.halves == 1 || c.InPlace; !last {
		c.InPlace = true
		p.begin(c)
		return
	}
	if n := len(p.got); n > 0 {
		p.got[n-1].Over, p.got[n-1].Iters = false, c.Iters
	}
}

// expected notes how long the model calculated.
func (p *pacer) expected(c bench.Case, took time.Duration) {
	if !c.InPlace { // then it has the time already
		p.add(func(costs *plan.Costs) { costs.Expect(c.Size, took) })
	}
}

func (p *pacer) add(to func(*plan.Costs)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to(&p.costs)
}

// ofPresent is what the plan says of the present row.
func (p *pacer) ofPresent() plan.Iterations {
	if p.at++; p.at >= len(p.given) || p.now().Sub(p.planned) >= replan {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.plan()
	}
	return p.given[p.at]
}

// plan plans the rows from the present one on. The caller holds mu.
func (p *pacer) plan() {
	p.given, p.at, p.planned = plan.Fit(p.toDo(), &p.costs, p.available()), 0, p.now()
}

// toDo are the rows from the present one on.
func (p *pacer) toDo() []plan.Row {
	rows := make([]plan.Row, len(p.left))
	for i, c := range p.left {
		rows[i] = plan.Row{Size: c.Size, Halves: p.halves, Warmup: c.Warmup, Iters: c.Iters, Least: p.least(c.Size)}
	}
	return rows
}

// available is the time for rows: the time left, less the time to end the ranks.
func (p *pacer) available() time.Duration {
	end := min(time.Second+p.started/5, p.budget.Total/10)
	return p.budget.End.Sub(p.now()) - end
}

// begin notes that half a row begins.
func (p *pacer) begin(c bench.Case) {
	p.half = half{began: p.now(), bytes: p.seen()}
	p.tell(c, p.describe(c), float64(c.Warmup+c.Iters))
}

// seen is how many bytes have arrived, as far as it is known.
func (p *pacer) seen() uint64 {
	if p.show == nil || p.arrived == nil {
		return 0
	}
	return p.arrived()
}

// Timed learns from the untimed iterations what a call takes and moves.
func (p *pacer) Timed(c bench.Case) {
	h, calls := &p.half, max(c.Launches-c.Iters, 1)
	h.c, h.timed, h.from = c, p.now(), p.seen()
	h.perCall = float64(h.from-h.bytes) / float64(calls)
	if p.measured() {
		return // the estimate of when the half began is better
	}
	h.call = h.timed.Sub(h.began) / time.Duration(calls)
	p.tell(c, p.describe(c), float64(c.Iters))
}

// Update shows how many timed iterations are done: all of them move the same bytes.
func (p *pacer) Update() {
	h := &p.half
	if p.show == nil || h.perCall == 0 {
		return
	}
	c := h.c
	done := float64(p.seen()-h.from) / h.perCall
	if done = min(done, float64(c.Iters)); done <= 0 {
		return
	}
	h.call = time.Duration(float64(p.now().Sub(h.timed)) / done)
	what := fmt.Sprintf("%s, iteration %d of %d", p.row(c), min(int(done)+1, c.Iters), c.Iters)
	if asked := p.left[0].Iters; c.Iters < asked {
		what += fmt.Sprintf(" (%d asked for)", asked)
	}
	p.tell(c, what, float64(c.Iters)-done)
}

// row names half a row.
func (p *pacer) row(c bench.Case) string {
	text := fmt.Sprintf("row %d of %d: %s", p.rows-len(p.left)+1, p.rows, plan.Size(c.Size))
	if c.InPlace {
		text += " in place"
	}
	return text
}

// describe names half a row, and how many of its iterations are run if they are fewer than were asked for.
func (p *pacer) describe(c bench.Case) string {
	text := p.row(c)
	if asked := p.left[0].Iters; c.Iters < asked {
		text += fmt.Sprintf(", %d of %d iterations", c.Iters, asked)
	}
	return text
}

// tell tells what runs. So many calls are left of its half.
func (p *pacer) tell(c bench.Case, what string, calls float64) {
	now := p.now()
	if p.show == nil || now.Sub(p.shown) < replan {
		return
	}
	p.shown = now
	p.show(what, p.predict(c, calls))
}

// measured reports whether a call was measured.
func (p *pacer) measured() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.costs.Any()
}

// predict is about how long it takes from now on, if so many calls are left of this half; below 0 if nothing is known
// about it.
func (p *pacer) predict(c bench.Case, calls float64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	rows, costs := p.toDo(), &p.costs
	if p.half.call > 0 {
		costs = costs.With(c.Size, p.half.call)
	}
	if !costs.Any() && rows[0].Least == 0 {
		return -1
	}
	if p.budget.Total > 0 && p.given == nil {
		p.plan()
	}
	halves := time.Duration(p.halves)
	total := time.Duration(calls*float64(costs.OfCall(rows[0]))) + costs.OfRest(rows[0])/halves
	if !c.InPlace && p.halves == 2 {
		total += costs.Of(rows[0], plan.Iterations{Warmup: c.Warmup, Iters: c.Iters}) / halves
	}
	for i, r := range rows[1:] {
		given := plan.Iterations{Warmup: r.Warmup, Iters: r.Iters}
		if p.budget.Total > 0 {
			given = p.given[p.at+1+i]
		}
		total += costs.Of(r, given)
	}
	if p.budget.Total > 0 { // the plan for the rows to come may be older than the costs
		total = min(total, max(p.budget.End.Sub(p.now()), 0))
	}
	return total
}

// dropped is what the budget has cost, also of the rows that were not begun.
func (p *pacer) dropped() []plan.Got {
	if p.budget.Total == 0 {
		return nil
	}
	all := p.got
	for i := len(p.got); p.rows > 0 && i < p.rows; i++ {
		c := p.left[len(p.left)-p.rows+i]
		all = append(all, plan.Got{Size: c.Size, Asked: c.Iters, Dropped: true})
	}
	return all
}
