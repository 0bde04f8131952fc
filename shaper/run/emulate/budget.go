// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/plan"
)

// Budget is the real time that a run may take.
type Budget struct {
	Total time.Duration // as the user gave it; 0 for no limit
	End   time.Time     // when it is spent
}

// errSpent is the cause of a context whose budget is spent.
var errSpent = errors.New("the budget is spent")

// Limit returns a context that ends when the budget is spent. Then Spent is true of it.
func (b Budget) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if b.Total == 0 {
		return ctx, func() {}
	}
	return context.WithDeadlineCause(ctx, b.End, errSpent)
}

// Left is the real time until the budget is spent, without the time that ranks need to end.
func (b Budget) Left() time.Duration { return time.Until(b.End) - endGrace }

// endGrace is the time in which ranks end.
const endGrace = time.Second

// Allows reports whether there is time for something that takes this long.
func (b Budget) Allows(took time.Duration) bool {
	return b.Total == 0 || time.Until(b.End) > took
}

// Text is the budget in an error or a note: "budget 2m".
func (b Budget) Text() string { return "budget " + plan.Duration(b.Total) }

// BudgetError says that no row could be measured within the budget.
type BudgetError struct {
	Budget Budget
	Why    string
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%s: no row was measured: %s", e.Budget.Text(), e.Why)
}

// refuse refuses a run on the real clock whose smallest row alone exceeds the budget at the time scale.
func (o *Options) refuse() error {
	if o.Budget.Total == 0 || o.Config.IsVirtual() {
		return nil
	}
	smallest := o.Bench
	smallest.Sizes, smallest.Iters, smallest.Warmup = []int64{slices.Min(o.Bench.Sizes)}, 1, 1
	smallest.Types, smallest.Ops, smallest.Cycles = nil, nil, 1
	p := *o
	p.Bench = smallest
	if t := p.predict(&o.Config); !o.Budget.Allows(t) {
		return configs.Errorf("", "%w", &BudgetError{o.Budget, fmt.Sprintf(
			"at time scale %d the row of %s alone takes %v with one iteration: give a larger budget, or ask for "+
				"smaller sizes",
			o.Config.TimeScale, plan.Size(smallest.Sizes[0]), t.Round(time.Second))})
	}
	return nil
}

// ended is what an attempt has when it ends early.
type ended struct {
	pacer  *pacer
	print  bench.Printer
	result bench.Result
	begin  func() error // makes the printer begin if it has not
}

// verdict is the verdict on the rows so far.
func (e *ended) verdict() verdict.Verdict {
	v := verdict.New(nil)
	if n := e.result.Wrong(); n > 0 {
		v.Add(verdict.Finding{Cause: verdict.CauseJob, Text: units.Count(int(n), "wrong element")})
	}
	return v
}

// failed ends the output of a run in which ranks failed, with the rows so far. It returns the error of the run.
func (o *Options) failed(e ended, err *bench.RanksError) (verdict.Verdict, error) {
	v := e.verdict()
	first := err.Failures[0]
	v.Add(verdict.Finding{Cause: verdict.CauseJob,
		Text: fmt.Sprintf("rank %d failed with %s measured: %s%s", first.Rank, ofRows(len(e.result.Rows), e.pacer.rows),
			first.Message, err.Hint())})
	if perr := e.print.End(o.summary(e.pacer, e.result, v)); perr != nil {
		return v, fmt.Errorf("print the result: %w", perr)
	}
	return v, err
}

// whyStopped reports whether a run was stopped by its user, or because its budget is spent.
func whyStopped(ctx context.Context) (stopped, spent bool) {
	cause := context.Cause(ctx)
	spent = errors.Is(cause, errSpent)
	return spent || errors.Is(cause, context.Canceled), spent
}

// Spent says that a context of Limit has ended because the budget is spent.
func Spent(ctx context.Context) bool {
	_, spent := whyStopped(ctx)
	return spent
}

// incomplete ends the output of a run that was interrupted or whose budget is spent, with the rows so far. It returns
// the error of the run: none if the budget is spent and there are rows.
func (o *Options) incomplete(ctx context.Context, e ended, err error) (verdict.Verdict, error) {
	stopped, spent := whyStopped(ctx)
	if !stopped {
		return verdict.Verdict{}, err
	}
	measured := len(e.result.Rows)
	v := e.verdict()
	why := "interrupted: " + ofRows(measured, e.pacer.rows) + " measured"
	if spent {
		why = fmt.Sprintf("the budget of %s was spent: %s measured", plan.Duration(o.Budget.Total),
			ofRows(measured, e.pacer.rows))
		if text := o.tellBudget(e.pacer); text != "" {
			v.Notes = append(v.Notes, text)
		}
	}
	v.Stop(why)
	perr := errors.Join(e.begin(), e.print.End(o.summary(e.pacer, e.result, v)))
	switch {
	case perr != nil:
		return v, fmt.Errorf("print the result: %w", perr)
	case !spent:
		return v, err
	case measured > 0:
		return v, nil
	}
	return v, configs.Errorf("", "%w", &BudgetError{o.Budget, e.pacer.whySpent()})
}

// notStarted ends the output of a run that was interrupted, or whose budget was spent, before its fabric was up.
// printer is nil if there is none yet.
func (o *Options) notStarted(ctx context.Context, notes []string, printer bench.Printer, err error) (Outcome, error) {
	if stopped, _ := whyStopped(ctx); !stopped {
		return Outcome{}, err
	}
	if printer == nil {
		printer = o.Output.Printer()
	}
	v, err := o.incomplete(ctx, ended{pacer: o.newPacer(0, nil), print: printer, begin: func() error {
		f, err := fabric.New(&o.Config)
		if err != nil {
			return err
		}
		cfg := o.Bench
		cfg.TimeScale = float64(o.Config.TimeScale)
		return printer.Begin(o.header(cfg, bench.Info{}, f, notes))
	}}, err)
	return Outcome{Verdict: v}, err
}

// ofRows is a number of rows in a sentence.
func ofRows(measured, all int) string {
	if all == 0 {
		return "no row"
	}
	return fmt.Sprintf("%d of %s", measured, units.Count(all, "row"))
}

// whySpent says what took the time before a row was measured.
func (p *pacer) whySpent() string {
	if p.rows == 0 {
		return "the ranks were still starting when it was spent: give a larger budget, or fewer --ranks"
	}
	took := p.now().Sub(p.began) - p.started
	return fmt.Sprintf(
		"the ranks took %v to start, and the row of %s was stopped after %v: give a larger budget, smaller sizes, or "+
			"fewer --ranks",
		p.started.Round(10*time.Millisecond), plan.Size(p.left[0].Size), took.Round(10*time.Millisecond))
}

// tellBudget writes what the budget has cost to the log and returns it.
func (o *Options) tellBudget(p *pacer) string {
	if o.Budget.Total == 0 {
		return ""
	}
	text := plan.Tell(o.Budget.Total, p.scale, p.dropped())
	if text != "" {
		fmt.Fprintf(o.Log, "ddlemu: %s\n", text)
	}
	return text
}

// summary is the end of the output.
func (o *Options) summary(p *pacer, r bench.Result, v verdict.Verdict) bench.Summary {
	s := bench.NewSummary(r, v, o.Output.More)
	if o.Budget.Total > 0 {
		got := p.dropped()
		s.Budget = &bench.BudgetSummary{Seconds: o.Budget.Total.Seconds(),
			Text: plan.Tell(o.Budget.Total, p.scale, got), Dropped: append([]int64{}, plan.Dropped(got)...)}
	}
	return s
}
