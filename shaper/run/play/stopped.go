// SPDX-License-Identifier: Apache-2.0

package play

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// stopped is the result of a replay that was interrupted, or whose budget was spent: the steps that all ranks have
// ended. It is nil if it ended for another reason.
func (a *attempt) stopped(ctx context.Context, r *Result, plans []*plan, played []bench.Played) *Result {
	if !emulate.Spent(ctx) && !errors.Is(context.Cause(ctx), context.Canceled) {
		return nil
	}
	r.Interrupted = a.o.Steps
	r.Facts = a.facts
	r.Problem = "the replay was stopped"
	n := stepsPlayed(plans, played)
	if n == 0 {
		return r
	}
	for rank, p := range plans {
		if len(p.marks) > 0 {
			plans[rank] = &plan{rank: p.rank, streams: p.streams, items: p.items[:p.marks[n-1]], marks: p.marks[:n]}
		}
		played[rank].Spans = played[rank].Spans[:len(plans[rank].items)]
	}
	r.Facts.plans, r.Facts.Steps = plans, n
	a.measure(r, plans, played)
	return r
}

// stepsPlayed is how many steps all ranks have ended.
func stepsPlayed(plans []*plan, played []bench.Played) int {
	steps := math.MaxInt
	for rank, p := range plans {
		if len(p.marks) == 0 {
			continue // it does nothing
		}
		ended := 0
		for ended < len(p.marks) && len(played) > 0 && hasEnded(played[rank].Spans, p.marks[ended]) {
			ended++
		}
		steps = min(steps, ended)
	}
	if steps == math.MaxInt {
		return 0
	}
	return steps
}

// hasEnded says whether the first n operations have ended.
func hasEnded(spans []bench.Span, n int) bool {
	return len(spans) >= n && !slices.ContainsFunc(spans[:n], func(s bench.Span) bool { return s.End == bench.NotEnded })
}

// judgeStopped is the verdict of a replay that was stopped.
func (a *attempt) judgeStopped(ctx context.Context, r *Result) {
	v := verdict.New(nil)
	for _, text := range a.facts.wrong {
		v.Add(verdict.Finding{Cause: verdict.CauseJob, Text: text})
	}
	why := "interrupted"
	if emulate.Spent(ctx) {
		why = a.o.On.Budget.Text() + ": it was spent"
	}
	v.Stop(fmt.Sprintf("%s: %d of %s played", why, len(r.Steps), units.Count(r.Interrupted, "step")))
	r.Verdict = v
}
