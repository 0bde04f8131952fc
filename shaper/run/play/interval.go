// SPDX-License-Identifier: Apache-2.0

package play

import (
	"context"
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/rewrite"
)

// Interval is between which times the model has all steps, because the source of the workload gives only an interval
// for the times of computations. It is the zero value if the source gives all of them.
type Interval struct {
	// Shortest has each computation with its ns, Longest with its max_ns ([rewrite.Longest]). With other waits the job
	// can take less time in the second case, so Longest may be the smaller one.
	Shortest, Longest time.Duration
	Reason            string // in one sentence
}

// Bounds are the two times, the smaller one first.
func (v *Interval) Bounds() (least, most time.Duration) {
	return min(v.Shortest, v.Longest), max(v.Shortest, v.Longest)
}

// intervalOf plays the other case of a workload with the model. shortest are the steps with the times that are played.
func (f *Facts) intervalOf(ctx context.Context, shortest []Step) (Interval, error) {
	if !rewrite.Uncertain(f.Workload.Workload) {
		return Interval{}, nil
	}
	ix, err := rewrite.Longest(f.Workload).Index()
	if err != nil {
		return Interval{}, fmt.Errorf("the other case of the workload: %w", err)
	}
	other := *f
	other.Workload = ix
	if other.plans, err = (&planner{ix: ix, steps: f.Steps}).plans(); err != nil {
		return Interval{}, err
	}
	spans, err := other.expected(ctx)
	if err != nil {
		return Interval{}, err
	}
	v := Interval{Shortest: timeOf(shortest), Longest: timeOf(measureSteps(other.plans, spans, 1))}
	v.explain(f.Workload)
	return v, nil
}

// timeOf is the time of steps together.
func timeOf(steps []Step) (sum time.Duration) {
	for i := range steps {
		sum += steps[i].Time
	}
	return sum
}

// explain sets the reason.
func (v *Interval) explain(ix *workload.Index) {
	n, all := 0, 0
	for i := range ix.Workload.Ops {
		op := &ix.Workload.Ops[i]
		if op.Kind != workload.Calc {
			continue
		}
		ranks := len(ix.RanksOf(op))
		if all += ranks; op.MaxNanos > op.Nanos {
			n += ranks
		}
	}
	const ms = float64(time.Millisecond)
	shortest, longest := float64(v.Shortest)/ms, float64(v.Longest)/ms
	of := fmt.Sprintf("%d of %s", n, units.Count(all, "computation"))
	if ix.Workload.Head.Source.Kind == rewrite.FromLedgers {
		v.Reason = fmt.Sprintf("The recording does not say whether %s began only when the call before had ended: "+
			"%.3f ms if they did, %.3f ms if not.", of, shortest, longest)
		return
	}
	v.Reason = fmt.Sprintf("The source gives only the shortest and the longest time of %s: %.3f ms with the shortest "+
		"ones, %.3f ms with the longest.", of, shortest, longest)
}
