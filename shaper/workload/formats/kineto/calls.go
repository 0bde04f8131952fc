// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// activity is one call with the kernels that it launched.
type activity struct {
	call         pytorch.Call
	called       int64 // when the host called; math.MinInt64 if that is not recorded
	start, end   int64 // of the kernels
	stream       input.Text
	correlation  int64 // of the last kernel
	function     int64
	hostOnly     bool // no kernel was recorded
	threadOfCall input.Text
	callEnd      int64
	cutParts     bool // the parts of the all-to-all are cut, and taken to go on as they begin
	open         bool // the sizes of the call are not set yet: tensors is what is known
	tensors
}

// merge puts the data of annotations into the records around them. It returns the calls and the waits, in the order of
// the host.
func merge(records []record) (calls, waits []record) {
	slices.SortFunc(records, func(a, b record) int {
		// An annotation begins after the record around it, or with it, and ends before it.
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end),
			cmp.Compare(units.Bit(a.annotation), units.Bit(b.annotation)))
	})
	open := map[input.Text]int{} // the last record of each thread
	for _, rec := range records {
		if i, ok := open[rec.thread]; ok && rec.annotation && rec.end <= calls[i].end {
			if outer := &calls[i].call; outer.Name == "" {
				rec.call.Group = outer.Group
				*outer = rec.call
				calls[i].open, calls[i].tensors = rec.open, rec.tensors
			} else if outer.Peer < 0 {
				outer.Peer = rec.call.Peer
			}
			continue
		} else if ok && rec.end <= calls[i].end && calls[i].call.IsBarrier() { // the all-reduce that a barrier makes
			calls[i].external = rec.external
			continue
		}
		calls = append(calls, rec)
		if !rec.annotation {
			open[rec.thread] = len(calls) - 1
		}
	}
	isWait := func(r record) bool { return r.call.IsWait() || r.call.Name == "" }
	for _, rec := range calls {
		if isWait(rec) {
			waits = append(waits, rec)
		}
	}
	return slices.DeleteFunc(calls, isWait), waits
}

// joiner joins calls with their kernels.
type joiner struct {
	*rank
	found      []activity
	calls      int                // that were recorded on the host: the first of found
	launches   map[int64]launch   // of kernels of NCCL, by correlation
	byExternal map[input.Text]int // of found
	byOperator map[*operator]int
}

// activities joins calls with their kernels, in a job of so many ranks. It counts the calls that are not in the
// workload because of what they moved.
func activities(calls []record, r *rank, world int, left *counts) (all []activity) {
	j := &joiner{rank: r, calls: len(calls), launches: r.launchesOfNCCL(), byExternal: map[input.Text]int{},
		byOperator: map[*operator]int{}}
	for i, c := range calls {
		j.found = append(j.found, activity{call: c.call, called: c.start, callEnd: c.end, start: c.start, end: c.end,
			hostOnly: true,
			function: c.function, threadOfCall: c.thread, open: c.open, tensors: c.tensors})
		if c.external != "" {
			j.byExternal[c.external] = i
		}
	}
	slices.SortFunc(r.kernels, func(a, b kernel) int { return cmp.Compare(a.start, b.start) })
	for _, k := range r.kernels {
		if i, ok := j.find(k); ok {
			j.found[i].add(k)
		} else {
			left.unknownKernels++
		}
	}
	settle(j.found, world, left)
	for _, a := range j.found {
		switch {
		case a.call.LacksSize():
			left.unsizedCalls++
		case !a.call.Empty():
			all = append(all, a)
		case a.call.Moves():
			left.emptyCalls++
		case a.call.Foreign() || !a.hostOnly: // a kernel of NCCL has moved something
			left.foreign = append(left.foreign, a.call.Unknown())
		}
	}
	slices.SortStableFunc(all, func(a, b activity) int { return cmp.Compare(a.start, b.start) })
	return all
}

// launchesOfNCCL are the launches of the kernels of NCCL: of the others a trace has millions.
func (r *rank) launchesOfNCCL() map[int64]launch {
	of := map[int64]launch{}
	for _, k := range r.kernels {
		of[k.correlation] = launch{}
	}
	for _, l := range r.launches {
		if _, ok := of[l.correlation]; ok {
			of[l.correlation] = l
		}
	}
	maps.DeleteFunc(of, func(_ int64, l launch) bool { return l == launch{} })
	return of
}

// find finds the activity of a kernel: the call in which it was launched, or that it names; or the operator, or what
// the kernel says itself.
func (j *joiner) find(k kernel) (int, bool) {
	if i, ok := callOf(j.found[:j.calls], k, j.launches); ok {
		return i, true
	}
	if i, ok := j.byExternal[k.external]; ok {
		return i, true
	}
	if k.call.Name != "" {
		return j.append(activity{called: math.MinInt64, hostOnly: true}), true
	}
	o := j.operatorOf(k, j.launches)
	if o == nil {
		return 0, false
	}
	o.called = true
	if _, ok := j.byOperator[o]; !ok {
		j.byOperator[o] = j.append(o.activity())
	}
	return j.byOperator[o], true
}

func (j *joiner) append(a activity) int {
	j.found = append(j.found, a)
	return len(j.found) - 1
}

// add adds a kernel of the call.
func (a *activity) add(k kernel) {
	if a.hostOnly {
		a.hostOnly, a.start, a.end, a.stream = false, k.start, k.end, k.stream
	}
	a.correlation = k.correlation
	a.start, a.end = min(a.start, k.start), max(a.end, k.end)
	if k.call.Name != "" && (a.call.Name == "" || a.open || a.call.Empty()) {
		a.call, a.open = k.call, false
	}
}

// operatorOf finds the operator in which a kernel was launched, nil if there is none.
func (r *rank) operatorOf(k kernel, launches map[int64]launch) *operator {
	l, ok := launches[k.correlation]
	if !ok {
		return nil
	}
	return r.around(l.thread, l.start)
}

// activity is the call of an operator that has neither a record nor an annotation, as all-to-alls of lists in PyTorch
// 2.1.
func (o *operator) activity() activity {
	return activity{call: pytorch.Call{Name: o.name, DType: o.dtype, Peer: o.peer}, called: o.start, callEnd: o.end,
		hostOnly: true,
		function: -1, threadOfCall: o.thread, open: true, tensors: o.tensors}
}

// callOf finds the call in which the kernel was launched.
func callOf(calls []activity, k kernel, launches map[int64]launch) (int, bool) {
	l, ok := launches[k.correlation]
	if !ok {
		return 0, false
	}
	at := sort.Search(len(calls), func(i int) bool { return calls[i].called > l.start })
	for i := at - 1; i >= 0 && i >= at-8; i-- { // calls of other threads may lie between
		if calls[i].threadOfCall == l.thread && l.start <= calls[i].callEnd {
			return i, true
		}
	}
	return 0, false
}
