// SPDX-License-Identifier: Apache-2.0

package perrank

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

func TestOrder(t *testing.T) {
	d := NewOrder[int]()
	for i, test := range []struct {
		op      workload.Op
		implied bool
		want    []int
	}{
		{op: workload.Op{ID: 1, Kind: workload.Calc}},
		{op: workload.Op{Kind: workload.Coll, Stream: "nccl", After: []int{1}}, want: []int{0}},
		{op: workload.Op{Kind: workload.Calc, Stream: "0"}, want: []int{0}}, // the stream of those that name none
		{op: workload.Op{Kind: workload.Wait}},
		{op: workload.Op{Kind: workload.Calc, Stream: "new"}, want: []int{1, 2}},
		{op: workload.Op{Kind: workload.Calc, Stream: "new"}, want: []int{4}}, // its predecessor has waited
		{op: workload.Op{Kind: workload.Calc, Stream: "nccl"}, implied: true, want: []int{1, 2}},
	} {
		if test.op.Kind == workload.Wait {
			d.Wait(&test.op)
			continue
		}
		if got := d.Before(&test.op, test.implied); !slices.Equal(got, test.want) {
			t.Errorf("operation %d comes after %v, want %v", i, got, test.want)
		}
		d.Written(&test.op, []int{i})
	}
}

func TestTimeline(t *testing.T) {
	w := &Timeline{Now: 100}
	w.StartLater(7)
	w.Compute(100) // nothing
	w.Compute(150)
	id := w.Call(workload.Op{Kind: workload.Coll}, "stream 20", 0)
	late := w.Call(workload.Op{Kind: workload.Coll}, "stream 21", 30)
	w.Pending = append(w.Pending, id, late)
	w.Compute(180)
	w.Call(workload.Op{Kind: workload.Coll}, "stream 20", 0)
	w.Step()
	calc := func(id int, ns int64, after ...int) workload.Op {
		return workload.Op{ID: id, Kind: workload.Calc, Stream: ComputeStream, Nanos: ns, After: after}
	}
	coll := func(id int, stream string, after ...int) workload.Op {
		return workload.Op{ID: id, Kind: workload.Coll, Stream: stream, After: after}
	}
	start := calc(1, 7)
	start.Name = "starts later"
	want := []workload.Op{
		start, calc(2, 50), coll(3, "nccl0", 2),
		{ID: 4, Kind: workload.Calc, Stream: ReadyStream, MaxNanos: 30, After: []int{2}}, coll(5, "nccl1", 4),
		calc(6, 30, 3, 5), coll(7, "nccl0", 6), {Kind: workload.Step},
	}
	if diff := cmp.Diff(want, w.Ops); diff != "" {
		t.Error(diff)
	}
}
