// SPDX-License-Identifier: Apache-2.0

package kineto

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/pytorch"
)

// activity is one call with the kernels that it launched.
type activity struct {
	call         pytorch.Call
	called       int64 // when the host called; math.MinInt64 if that is not recorded
	start, end   int64 // of the kernels
	stream       loose
	correlation  int64 // of the last kernel
	function     int64
	hostOnly     bool // no kernel was recorded
	threadOfCall loose
	callEnd      int64
	cutParts     bool // the parts of the all-to-all are cut, and taken to go on as they begin
	open         bool // the sizes of the call are not set yet: tensors is what is known
	tensors
}

// merge puts the data of annotations into the records around them. It returns the calls and the waits, in the order of the
// host.
func merge(records []record) (calls, waits []record) {
	slices.SortFunc(records, func(a, b record) int {
		// An annotation begins after the record around it, or with it, and ends before it.
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(bit(a.annotation), bit(b.annotation)))
	})
	open := map[loose]int{} // the last record of each thread
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

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// dropped counts what is not in the workload because of what it moved.
type dropped struct {
	unknownKernels int      // nothing says what they moved
	unsizedCalls   int      // likewise
	emptyCalls     int      // they moved no element
	foreign        []string // why, of each call whose collective or type is not known
}

func (d *dropped) add(o dropped) {
	d.unknownKernels += o.unknownKernels
	d.unsizedCalls += o.unsizedCalls
	d.emptyCalls += o.emptyCalls
	d.foreign = append(d.foreign, o.foreign...)
}

// activities joins calls with their kernels, in a job of so many ranks.
func activities(calls []record, r *rank, world int) (all []activity, d dropped) {
	var found []activity
	byExternal, byOperator := map[loose]int{}, map[*operator]int{}
	for i, c := range calls {
		found = append(found, activity{call: c.call, called: c.start, callEnd: c.end, start: c.start, end: c.end, hostOnly: true,
			function: c.function, threadOfCall: c.thread, open: c.open, tensors: c.tensors})
		if c.external != "" {
			byExternal[c.external] = i
		}
	}
	launches := map[int64]launch{}
	for _, l := range r.launches {
		launches[l.correlation] = l
	}
	slices.SortFunc(r.kernels, func(a, b kernel) int { return cmp.Compare(a.start, b.start) })
	for _, k := range r.kernels {
		i, ok := callOf(found[:len(calls)], k, launches)
		if !ok {
			i, ok = byExternal[k.external]
		}
		if !ok && k.call.Name == "" {
			if o := r.operatorOf(k, launches); o != nil {
				o.called = true
				if i, ok = byOperator[o]; !ok {
					found = append(found, o.activity())
					i, ok = len(found)-1, true
					byOperator[o] = i
				}
			}
		}
		if !ok {
			if k.call.Name == "" {
				d.unknownKernels++
				continue
			}
			found = append(found, activity{called: math.MinInt64, hostOnly: true})
			i = len(found) - 1
		}
		found[i].add(k)
	}
	settle(found, world, &r.guesses)
	for _, a := range found {
		switch {
		case a.call.LacksSize():
			d.unsizedCalls++
		case !a.call.Empty():
			all = append(all, a)
		case a.call.Moves():
			d.emptyCalls++
		case a.call.Foreign() || !a.hostOnly: // a kernel of NCCL has moved something
			d.foreign = append(d.foreign, a.call.Unknown())
		}
	}
	slices.SortStableFunc(all, func(a, b activity) int { return cmp.Compare(a.start, b.start) })
	return all, d
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

// activity is the call of an operator that has neither a record nor an annotation, as all-to-alls of lists in PyTorch 2.1.
func (o *operator) activity() activity {
	return activity{call: pytorch.Call{Name: o.name, DType: o.dtype, Peer: o.peer}, called: o.start, callEnd: o.end, hostOnly: true,
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
