// SPDX-License-Identifier: Apache-2.0

package play

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// plansOf are the plans of a workload, all of it.
func plansOf(t *testing.T, ix *workload.Index) []*plan {
	t.Helper()
	steps, err := StepsOf(ix)
	if err != nil {
		t.Fatal(err)
	}
	plans, err := (&planner{ix: ix, steps: steps}).plans()
	if err != nil {
		t.Fatal(err)
	}
	return plans
}

func TestMeasureSteps(t *testing.T) {
	ix := index(t,
		`{"format":"ddlemu.workload/1","ranks":2}`,
		`{"op":"calc","ns":100,"stream":"c","id":1}`,
		`{"op":"coll","func":"AllReduce","count":25,"type":"float32","stream":"n","after":[1],"id":2}`,
		`{"op":"calc","ns":50,"stream":"c"}`,
		`{"op":"step"}`,
		`{"op":"calc","ns":30,"stream":"c","after":[2]}`,
		`{"op":"step"}`,
	)
	spans := [][]bench.Span{
		{{Ready: 0, End: 100}, {Ready: 100, End: 240}, {Ready: 100, End: 150}, {Ready: 250, End: 280}},
		{{Ready: 0, End: 120}, {Ready: 120, End: 230}, {Ready: 120, End: 170}, {Ready: 230, End: 260}},
	}
	want := []Step{
		// Rank 0 ends last, at 240: it computes 0-150 and communicates 100-240.
		{Time: 240, Slowest: 0, Compute: 150, Exposed: 90, Hidden: 50},
		// 240-280: it computes 250-280.
		{Time: 40, Slowest: 0, Compute: 30, Exposed: 10, Idle: 10},
	}
	if d := cmp.Diff(want, measureSteps(plansOf(t, ix), spans, 1)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// Rank 0 computes for 180 of 280 ns, reduces alone for 90, and does nothing for 10.
	parts := []Share{{What: Computation, Time: 180}, {What: "AllReduce", Time: 90}, {What: Idle, Time: 10}}
	if d := cmp.Diff(parts, compose(plansOf(t, ix), spans, meet(ix, plansOf(t, ix), spans).until, want, 1)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for i := range want {
		want[i] = Step{Time: want[i].Time / 2, Compute: want[i].Compute / 2, Exposed: want[i].Exposed / 2,
			Hidden: want[i].Hidden / 2, Idle: want[i].Idle / 2}
	}
	if d := cmp.Diff(want, measureSteps(plansOf(t, ix), spans, 2)); d != "" {
		t.Errorf("at time scale 2 (-want +got):\n%s", d)
	}
	for i := range parts {
		parts[i].Time /= 2
	}
	if d := cmp.Diff(parts, compose(plansOf(t, ix), spans, meet(ix, plansOf(t, ix), spans).until, want, 2)); d != "" {
		t.Errorf("at time scale 2 (-want +got):\n%s", d)
	}
	calls := measureCalls(meet(ix, plansOf(t, ix), spans).all, 1)
	// From 120, when rank 1 is ready, until 240, when rank 0 has ended. 100 bytes in 120 ns, and 2 (n-1)/n is 1.
	wantCalls := []Calls{{Func: "AllReduce", Comm: "world", Ranks: 2, Size: 100, Count: 1, Mean: 120, Min: 120,
		Max: 120, BusBW: 100. / 120}}
	if d := cmp.Diff(wantCalls, calls); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Two calls at once share the time.
func TestComposeCallsAtOnce(t *testing.T) {
	ix := index(t,
		`{"format":"ddlemu.workload/1","ranks":2}`,
		`{"op":"coll","func":"AllReduce","count":1,"type":"int8","stream":"a"}`,
		`{"op":"coll","func":"AllGather","count":1,"type":"int8","stream":"b"}`,
		`{"op":"group","ops":[{"op":"send","count":1,"type":"int8","peer":1,"relative":true},{"op":"recv","count":1,"type":"int8","peer":-1,"relative":true}],"stream":"c"}`,
	)
	spans := [][]bench.Span{{{Ready: 0, End: 60}, {Ready: 20, End: 60}, {Ready: 60, End: 100}}, {{}, {}, {}}}
	want := []Share{{What: "AllGather", Time: 20}, {What: "AllReduce", Time: 40}, {What: sendRecv, Time: 40}}
	if d := cmp.Diff(want, compose(plansOf(t, ix), spans, meet(ix, plansOf(t, ix), spans).until, []Step{{Time: 100}},
		1)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What waits for a peer is apart from the transfer: rank 1 of a ring of three comes late, and the groups of both others
// end late.
func TestWaitingForAPeer(t *testing.T) {
	ix := index(t,
		`{"format":"ddlemu.workload/1","ranks":3}`,
		`{"rank":1,"op":"calc","ns":1000}`,
		`{"op":"group","ops":[{"op":"send","count":100,"type":"int8","peer":1,"relative":true},{"op":"recv","count":100,"type":"int8","peer":-1,"relative":true}]}`,
		`{"rank":0,"op":"calc","ns":5}`,
		`{"op":"coll","func":"AllReduce","count":1,"type":"int8"}`,
	)
	plans := plansOf(t, ix)
	spans := [][]bench.Span{
		{{Ready: 0, End: 1100}, {Ready: 1100, End: 1105}, {Ready: 1105, End: 1205}},
		{{Ready: 0, End: 1000}, {Ready: 1000, End: 1100}, {Ready: 1100, End: 1205}},
		{{Ready: 10, End: 1100}, {Ready: 1100, End: 1206}},
	}
	met := meet(ix, plans, spans)
	want := []Calls{
		// The messages to and from rank 1 take 100 ns. That from 2 to 0 may have gone on before: its ends were ready
		// at 10.
		{Func: sendRecv, Comm: "world", Ranks: 3, Size: 100, Count: 3, Mean: 430, Min: 100, Max: 1090, Waiting: 330,
			BusBW: 100. / 430, Grouped: true},
		{Func: "AllReduce", Comm: "world", Ranks: 3, Size: 1, Count: 1, Mean: 101, Min: 101, Max: 101,
			BusBW: 4. / 3 / 101},
	}
	if d := cmp.Diff(want, measureCalls(met.all, 1), cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	steps := measureSteps(plans, spans, 1)
	parts := []Share{{What: "AllReduce", Time: 106, Waiting: 5}, {What: sendRecv, Time: 1090, Waiting: 990},
		{What: Idle, Time: 10}}
	if d := cmp.Diff(parts, compose(plans, spans, met.until, steps, 1),
		cmpopts.SortSlices(func(a, b Share) bool { return a.What < b.What })); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if s := (Step{Time: 1206, Slowest: 2, Exposed: 1206, Waiting: 995, Idle: 10}); len(steps) != 1 || steps[0] != s {
		t.Errorf("%+v", steps)
	}
	for scale, want := range map[float64]time.Duration{1: 995, 2: 497} {
		steps := measureSteps(plans, spans, scale)
		if compose(plans, spans, met.until, steps, scale); steps[0].Waiting != want {
			t.Errorf("at time scale %v: %+v", scale, steps)
		}
	}
}

// The k-th send meets the k-th receive, however the ranks divide them into groups and streams.
func TestMeetMessages(t *testing.T) {
	ix := index(t,
		`{"format":"ddlemu.workload/1","ranks":2}`,
		`{"rank":0,"op":"send","count":8,"type":"int8","peer":1}`,
		`{"rank":0,"op":"send","count":16,"type":"int8","peer":1}`,
		`{"rank":1,"op":"group","ops":[{"op":"recv","count":8,"type":"int8","peer":0},{"op":"recv","count":16,"type":"int8","peer":0}]}`,
		`{"op":"coll","func":"Gather","count":10,"type":"int8"}`,
	)
	spans := [][]bench.Span{
		{{Ready: 0, End: 10}, {Ready: 10, End: 30}, {Ready: 30, End: 50}},
		{{Ready: 5, End: 35}, {Ready: 40, End: 45}},
	}
	want := []Calls{
		{Func: sendRecv, Comm: "world", Ranks: 2, Size: 8, Count: 1, Mean: 30, Min: 30, Max: 30, Waiting: 5,
			BusBW: 8. / 30, Grouped: true},
		{Func: sendRecv, Comm: "world", Ranks: 2, Size: 16, Count: 1, Mean: 25, Min: 25, Max: 25, BusBW: 16. / 25,
			Grouped: true},
		{Func: "Gather", Comm: "world", Ranks: 2, Size: 20, Count: 1, Mean: 10, Min: 10, Max: 10, BusBW: 1},
	}
	if d := cmp.Diff(want, measureCalls(meet(ix, plansOf(t, ix), spans).all, 1)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Equal calls are one row, with the mean, the least and the most of their times.
func TestMeasureEqualCalls(t *testing.T) {
	ix := index(t,
		`{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"t","ranks":"0-1"},{"name":"t","ranks":"2-3"}]}`,
		`{"op":"coll","comm":"t","func":"AllGather","count":10,"type":"int8"}`,
	)
	spans := [][]bench.Span{{{Ready: 0, End: 10}}, {{Ready: 2, End: 12}}, {{Ready: 0, End: 30}}, {{Ready: 0, End: 20}}}
	want := []Calls{{Func: "AllGather", Comm: "t", Ranks: 2, Size: 20, Count: 2, Mean: 20, Min: 10, Max: 30, BusBW: .5}}
	if d := cmp.Diff(want, measureCalls(meet(ix, plansOf(t, ix), spans).all, 1)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestMean(t *testing.T) {
	got := Mean([]Step{{Time: 4, Compute: 2, Exposed: 2, Hidden: 2}, {Time: 2, Idle: 2, Exposed: 2}})
	if got != (Step{Time: 3, Compute: 1, Exposed: 2, Hidden: 1, Idle: 1}) {
		t.Errorf("%+v", got)
	}
	if Mean(nil).Time != time.Duration(0) {
		t.Error("no steps take time")
	}
}
