// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
)

// idle is the gap in ns after which a stream of a GPU counts as idle: back-to-back kernels follow within it. On AMD's
// they follow after 17 to 21 us (NCCL's stream in a trace of MI300X, ROCm 6.4), on others after less than 3.
func idle(hardware string) int64 {
	if strings.HasPrefix(hardware, "AMD") {
		return 30_000
	}
	return 3000
}

// anchor is a point of the timeline of a rank.
type anchor struct {
	at    int64
	order int // of anchors at the same time
	coll  int // index of a collective that is ready; -1: none
	joins []int
	step  bool
	all   bool  // joins all collectives
	from  int64 // when the host waited for the joins
}

// ready is when the data of each collective was ready: between lo and hi.
func ready(all []activity, idle int64) (lo, hi []int64) {
	lo, hi = make([]int64, len(all)), make([]int64, len(all))
	type previous struct{ end, lo int64 }
	streams := map[input.Text]previous{}
	for i, a := range all {
		lo[i], hi[i] = a.start, a.start
		before, ok := streams[a.stream]
		if ok && a.start-before.end < idle {
			lo[i] = max(before.lo, min(a.start, a.called))
		}
		streams[a.stream] = previous{max(before.end, a.end), lo[i]}
	}
	return lo, hi
}

// waitPoints are the anchors at which the computation waits for collectives.
func (r *rank) waitPoints(all []activity, calls, waitRecords []record) []anchor {
	points := r.streamWaits(calls)
	if len(points) == 0 {
		for _, w := range waitRecords {
			points = append(points, launch{w.start, -1, w.thread})
		}
	}
	slices.SortFunc(points, func(a, b launch) int { return cmp.Compare(a.start, b.start) })
	open := newOpenCalls(all)
	var out []anchor
	for _, w := range points {
		p := anchor{at: w.start, from: w.start, coll: -1}
		for _, i := range r.waitedFor(all, open, w) {
			p.joins = append(p.joins, i)
			p.at = max(p.at, all[i].end)
		}
		if len(p.joins) > 0 {
			out = append(out, p)
		}
	}
	return out
}

// streamWaits are the waits for events outside the calls of process groups: within one, NCCL's stream waits for the
// data.
func (r *rank) streamWaits(calls []record) []launch {
	var out []launch
	for _, w := range r.waits {
		at := sort.Search(len(calls), func(i int) bool { return calls[i].start > w.start })
		inside := false
		for i := at - 1; i >= 0 && i >= at-8; i-- {
			inside = inside || calls[i].thread == w.thread && w.start <= calls[i].end
		}
		if !inside {
			out = append(out, w)
		}
	}
	return out
}

// openCalls are the collectives that were called, and that no wait has been for yet.
type openCalls struct {
	all     []activity
	order   []int                // of all, by the time of the call
	next    int                  // in order
	streams map[input.Text][]int // those of each stream, in order
}

func newOpenCalls(all []activity) *openCalls {
	o := &openCalls{all: all, order: make([]int, len(all)), streams: map[input.Text][]int{}}
	for i := range o.order {
		o.order[i] = i
	}
	slices.SortStableFunc(o.order, func(a, b int) int { return cmp.Compare(all[a].calledAt(), all[b].calledAt()) })
	return o
}

// calledAt is when the call was made, or when its kernel started if that is not recorded.
func (a *activity) calledAt() int64 {
	if a.called == math.MinInt64 {
		return a.start
	}
	return a.called
}

// until adds the collectives that were called by a time.
func (o *openCalls) until(at int64) {
	for ; o.next < len(o.order) && o.all[o.order[o.next]].calledAt() <= at; o.next++ {
		i := o.order[o.next]
		o.streams[o.all[i].stream] = append(o.streams[o.all[i].stream], i)
	}
}

// take removes the calls of a stream that the wait is for, and returns them.
func (o *openCalls) take(stream input.Text, waited func(*activity) bool) (out []int) {
	rest := o.streams[stream][:0]
	for _, i := range o.streams[stream] {
		if waited(&o.all[i]) {
			out = append(out, i)
		} else {
			rest = append(rest, i)
		}
	}
	o.streams[stream] = rest
	return out
}

// waitedFor are the collectives that a wait may wait for. If the trace says it, these are the ones on the stream up to
// the event. Otherwise they are all that were called before, but those that still ran when the next kernel started.
func (r *rank) waitedFor(all []activity, open *openCalls, w launch) []int {
	open.until(w.start)
	if exact, known := r.syncs[w.correlation]; known {
		out := open.take(exact.stream, func(a *activity) bool { return exact.record >= a.correlation })
		slices.Sort(out)
		return out
	}
	next := int64(math.MaxInt64)
	if w.correlation >= 0 {
		at := sort.Search(len(r.computes), func(i int) bool { return r.computes[i].correlation > w.correlation })
		if at < len(r.computes) {
			next = r.computes[at].start
		}
	}
	var out []int
	for stream := range open.streams {
		out = append(out, open.take(stream, func(a *activity) bool { return next >= a.end })...)
	}
	slices.Sort(out)
	return out
}

// window is the part of the trace that is used: whole steps, as start times of each and the end of the last.
func (r *rank) window(numbers []int) []int64 {
	if len(numbers) == 0 {
		return []int64{r.first, r.last}
	}
	var bounds []int64
	for _, s := range r.steps {
		if slices.Contains(numbers, s.number) {
			bounds = append(bounds, s.start)
		}
	}
	last := slices.IndexFunc(r.steps, func(s step) bool { return s.number == numbers[len(numbers)-1] })
	return append(bounds, r.steps[last].end)
}

// anchors are all anchors of the window, in order.
func anchors(lo []int64, bounds []int64, points []anchor, forced bool) []anchor {
	out := slices.Clone(points)
	first, last := bounds[0], bounds[len(bounds)-1]
	for i, t := range lo {
		out = append(out, anchor{at: t, coll: i, order: 1})
	}
	for _, t := range bounds[1:] {
		out = append(out, anchor{at: t, coll: -1, step: true, order: 2, all: forced})
	}
	slices.SortStableFunc(out,
		func(a, b anchor) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	return slices.DeleteFunc(out,
		func(a anchor) bool { return a.at < first || a.at > last || a.at == last && a.coll >= 0 })
}

// timeline turns anchors into operations. skew is by how much the rank starts later than the first one; negative if
// there is only one. op gives the operations of each call, none if it is left out.
func timeline(list []anchor, lo, hi []int64, all []activity, start, skew int64,
	op func(i int) []workload.Op) []workload.Op {
	t := &perrank.Timeline{Now: start}
	if skew >= 0 {
		t.StartLater(skew)
	}
	ids := map[int][]int{}
	join := func(indices []int) {
		for _, i := range indices {
			t.Pending = append(t.Pending, ids[i]...)
			delete(ids, i)
		}
	}
	for _, a := range list {
		switch {
		case a.step:
			t.Compute(a.at)
			if a.all {
				a.joins = slices.Sorted(maps.Keys(ids))
			}
			join(a.joins)
			t.Step()
		case a.coll >= 0:
			t.Compute(a.at)
			for _, o := range op(a.coll) {
				ids[a.coll] = append(ids[a.coll], t.Call(o, string(all[a.coll].stream), hi[a.coll]-lo[a.coll]))
			}
		case slices.ContainsFunc(a.joins, func(i int) bool { return ids[i] != nil }):
			t.Compute(a.from)
			join(a.joins)
			t.Now = max(t.Now, a.at)
		}
	}
	return t.Ops
}
