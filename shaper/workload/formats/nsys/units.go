// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// unit is a call of NCCL, or the calls of a group, with the kernels that they launched.
type unit struct {
	called, returned int64 // of the host
	calls            []*rangeEvent
	start, end       int64 // of the kernels
	correlation      int64 // of the last kernel; -1 if there is none
	stream           int64 // of the kernels; -1 if they are on several, or there is none
}

func (u *unit) hasKernel() bool { return u.correlation >= 0 }

// processUnits are the units of a process, in the order of the host, and the units of each thread.
type processUnits struct {
	all      []*unit
	byThread map[thread][]*unit
	cut      int // calls after which the recording ended before they ran, or before their group did
	unknown  int // kernels that no call has launched
}

// unitsOf finds the units of each process.
func unitsOf(r *recording) map[process]*processUnits {
	byThread := map[thread][]*rangeEvent{}
	for i := range r.ranges {
		e := &r.ranges[i]
		byThread[e.thread] = append(byThread[e.thread], e)
	}
	out := map[process]*processUnits{}
	of := func(p process) *processUnits {
		if out[p] == nil {
			out[p] = &processUnits{byThread: map[thread][]*unit{}}
		}
		return out[p]
	}
	for t, events := range byThread {
		u := of(t.process())
		list, cut := threadUnits(events)
		u.byThread[t], u.cut = list, u.cut+cut
		u.all = append(u.all, list...)
	}
	for i := range r.kernels {
		k := &r.kernels[i]
		u := of(k.process)
		l, ok := r.launches[launchKey{k.process, k.correlation}]
		if !ok || !u.launch(l, k) {
			u.unknown++
		}
	}
	for _, u := range out {
		u.dropUnrun()
		slices.SortFunc(u.all, func(a, b *unit) int {
			return cmp.Or(cmp.Compare(a.called, b.called), cmp.Compare(b.returned, a.returned))
		})
	}
	return out
}

// threadUnits are the units of a thread, and the number of calls of a group that did not end. Ranges within a call are
// ranges of NCCL's own calls, such as the group in ncclSend before 2.24.
func threadUnits(events []*rangeEvent) (list []*unit, cut int) {
	slices.SortStableFunc(events,
		func(a, b *rangeEvent) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	depth, inside := 0, int64(-1)
	var group *unit
	for _, e := range events {
		_, moves := functions[e.function]
		switch {
		case e.start < inside:
		case e.function == "ncclGroupStart":
			if depth++; depth == 1 {
				group = &unit{called: e.start, correlation: -1, stream: -1}
			}
		case e.function == "ncclGroupEnd":
			if depth = max(depth-1, 0); depth == 0 && group != nil {
				if group.returned = e.end; len(group.calls) > 0 {
					list = append(list, group)
				}
				group = nil
			}
		case moves || oneSided[e.function]:
			if inside = e.end; group != nil {
				group.calls = append(group.calls, e)
			} else {
				list = append(list, &unit{called: e.start, returned: e.end, calls: []*rangeEvent{e}, correlation: -1,
					stream: -1})
			}
		}
	}
	if group != nil {
		cut = len(group.calls)
	}
	return list, cut
}

// launch gives a kernel to the unit in which it was launched.
func (u *processUnits) launch(l launch, k *kernel) bool {
	list := u.byThread[l.thread]
	at := sort.Search(len(list), func(i int) bool { return list[i].called > l.start }) - 1
	if at < 0 || l.start > list[at].returned {
		return false
	}
	one := list[at]
	if !one.hasKernel() {
		one.start, one.end, one.stream = k.start, k.end, k.stream
	}
	if one.stream != k.stream {
		one.stream = -1
	}
	one.start, one.end = min(one.start, k.start), max(one.end, k.end)
	one.correlation = max(one.correlation, k.correlation)
	return true
}

// dropUnrun drops the units after the last one with a kernel: the recording ended before they ran.
func (u *processUnits) dropUnrun() {
	last := int64(math.MinInt64)
	for _, one := range u.all {
		if one.hasKernel() {
			last = max(last, one.called)
		}
	}
	if last == math.MinInt64 {
		return // no kernels were recorded
	}
	u.all = slices.DeleteFunc(u.all, func(one *unit) bool {
		if one.called > last {
			u.cut += len(one.calls)
			return true
		}
		return false
	})
}
