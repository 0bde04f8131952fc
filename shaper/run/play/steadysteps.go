// SPDX-License-Identifier: Apache-2.0

package play

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
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

// of are the usual ones of steps, of which there may be fewer than of the plans. If none of them is usual, it is all.
func (u Usual) of(steps []Step) []Step {
	if u.To == 0 || u.From >= len(steps) {
		return steps
	}
	return steps[u.From:min(u.To, len(steps))]
}

// Mean is the mean of the usual steps.
func (r *Result) Mean() Step { return Mean(r.Usual.of(r.Steps)) }

// apart is how many of the steps come before and after the usual ones.
func (r *Result) apart() (warmup, ending int) {
	n := len(r.Steps)
	usual := r.Usual.of(r.Steps)
	if len(usual) == n {
		return 0, 0
	}
	return r.Usual.From, n - r.Usual.From - len(usual)
}

// usualNote says which steps the mean leaves out; "" if none.
func (r *Result) usualNote() string {
	warmup, ending := r.apart()
	if warmup+ending == 0 {
		return ""
	}
	n := len(r.Steps)
	var apart []string
	if warmup > 0 {
		apart = append(apart, stepsText(1, warmup)+" at the beginning (a warm-up)")
	}
	if ending > 0 {
		apart = append(apart, stepsText(n-ending+1, n)+" at the end")
	}
	return fmt.Sprintf("%s: other calls than most steps, so the mean is of %s", strings.Join(apart, " and "),
		stepsText(warmup+1, n-ending))
}

// stepsText names steps, from 1.
func stepsText(first, last int) string {
	if first == last {
		return fmt.Sprintf("step %d", first)
	}
	return fmt.Sprintf("steps %d to %d", first, last)
}
