// SPDX-License-Identifier: Apache-2.0

package play

import (
	"hash/maphash"
	"slices"
	"time"
)

// Usual is the range of steps that make the same calls. Warm-up steps, such as the first step of
// DistributedDataParallel, which has other buckets, and closing steps are left out. It is steps From to before To, from
// 0. The zero value is all steps.
type Usual struct{ From, To int }

// usualOf finds the usual steps of plans: at least half of all steps must make the same calls. With fewer than 3 steps,
// nothing is usual.
func usualOf(plans []*plan) Usual {
	calls := callsOfSteps(plans)
	count, most := map[uint64]int{}, uint64(0)
	for _, c := range calls {
		if count[c]++; count[c] > count[most] {
			most = c
		}
	}
	if len(calls) < 3 || 2*count[most] < len(calls) {
		return Usual{}
	}
	u := Usual{From: slices.Index(calls, most), To: len(calls)}
	for calls[u.To-1] != most {
		u.To--
	}
	return u
}

// callsOfSteps is a number for each step. Steps in which all ranks make the same calls in the same order have the same.
func callsOfSteps(plans []*plan) []uint64 {
	seed := maphash.MakeSeed()
	var out []uint64
	for _, p := range plans {
		from := 0
		for step, to := range p.marks {
			if step == len(out) {
				out = append(out, 0)
			}
			for _, it := range p.items[from:to] {
				for _, c := range it.calls {
					out[step] = maphash.Comparable(seed, [2]any{out[step], c.what})
				}
			}
			out[step] = maphash.Comparable(seed, [2]any{out[step], p.rank})
			from = to
		}
	}
	return out
}

// Of are the usual ones of steps, of which there may be fewer than of the plans. If none of them is usual, it is all.
func (u Usual) Of(steps []Step) []Step {
	if u.To == 0 || u.From >= len(steps) {
		return steps
	}
	return steps[u.From:min(u.To, len(steps))]
}

// Mean is the mean of the usual steps.
func (r *Result) Mean() Step { return Mean(r.Usual.Of(r.Steps)) }

// Mean is the mean of the times of steps.
func Mean(steps []Step) Step {
	var sum Step
	n := time.Duration(max(len(steps), 1))
	for _, s := range steps {
		sum.Time += s.Time
		sum.Compute += s.Compute
		sum.Exposed += s.Exposed
		sum.Waiting += s.Waiting
		sum.Hidden += s.Hidden
		sum.Idle += s.Idle
	}
	return Step{Time: sum.Time / n, Compute: sum.Compute / n, Exposed: sum.Exposed / n, Waiting: sum.Waiting / n,
		Hidden: sum.Hidden / n, Idle: sum.Idle / n}
}
