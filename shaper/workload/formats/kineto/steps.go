// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// sortSteps puts the steps in order, and leaves out those that are there twice.
func (r *rank) sortSteps() {
	slices.SortStableFunc(r.steps, func(a, b step) int { return cmp.Compare(a.start, b.start) })
	r.steps = slices.CompactFunc(r.steps, func(a, b step) bool { return a.number == b.number })
}

// stepAt is the index of the step at a time of the host: -1 before the first, the number of steps after the last.
func (r *rank) stepAt(t int64) int {
	n := len(r.steps)
	if t > r.steps[n-1].end {
		return n
	}
	return sort.Search(n, func(i int) bool { return r.steps[i].start > t }) - 1
}

// launchedIn are the steps in which the host launched the kernels of NCCL, of those kernels whose launch the trace has.
func (r *rank) launchedIn() map[*kernel]int {
	launches := r.launchesOfNCCL()
	in := map[*kernel]int{}
	for i := range r.kernels {
		k := &r.kernels[i]
		if l, ok := launches[k.correlation]; ok {
			in[k] = r.stepAt(l.start)
		}
	}
	return in
}

// stepsOnGPU lets each step begin with the first kernel that the host launched in it, not before the last one of the
// step before has begun, and the last step end with its last kernel. It does so if a kernel of NCCL ran in a later
// step of the host than that in which it was launched: a host that waits for nothing in a step is ahead of the GPU by
// up to some steps.
func (r *rank) stepsOnGPU() {
	r.sortSteps()
	n := len(r.steps)
	if n == 0 {
		return
	}
	in := r.launchedIn()
	ends := make([]int64, n) // of the kernels of NCCL
	for k, s := range in {
		if s >= 0 && s < n {
			r.ahead = r.ahead || r.stepAt(k.start) > s
			ends[s] = max(ends[s], k.end)
		}
	}
	if !r.ahead {
		return
	}
	first, latest := r.startsOfSteps()
	for k, s := range in {
		if s < n {
			latest[s+1] = max(latest[s+1], k.start)
		}
	}
	before := int64(math.MinInt64)
	for i := range r.steps {
		s := &r.steps[i]
		before = max(before, latest[i])
		s.start = max(s.start, before)
		if first[i] < math.MaxInt64 {
			s.start = max(s.start, first[i])
		}
		s.end = max(s.end, s.start, latest[i+1], ends[i])
	}
}

// startsOfSteps are the starts of the first and of the last kernel, without kernels of NCCL, that the host launched in
// each step. latest begins with the last one that was launched before all steps.
func (r *rank) startsOfSteps() (first, latest []int64) {
	n := len(r.steps)
	first, latest = slices.Repeat([]int64{math.MaxInt64}, n), slices.Repeat([]int64{math.MinInt64}, n+1)
	for _, l := range r.launches {
		s := r.stepAt(l.start)
		if s == n {
			continue
		}
		at := sort.Search(len(r.computes), func(i int) bool { return r.computes[i].correlation >= l.correlation })
		for ; at < len(r.computes) && r.computes[at].correlation == l.correlation; at++ {
			start := r.computes[at].start
			latest[s+1] = max(latest[s+1], start)
			if s >= 0 {
				first[s] = min(first[s], start)
			}
		}
	}
	return first, latest
}
