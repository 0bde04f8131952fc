// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// late is a job whose messages are late on each of n links, on link i by i+1 ms.
func late(n int) Input {
	in := Input{TimeScale: 1, Job: state.JobStatus{Joined: 2, Left: 2}, Load: &Load{Runnable: 28.4, Cores: 2}}
	in.Name = func(hop int) string { return fmt.Sprintf("node0:node%d", hop+1) }
	in.Job.Pauses = make([]state.Pauses, n)
	in.Path = func(_, dst int) []link.PathHop { return []link.PathHop{{Hop: dst}} }
	for i := range n {
		k := state.Class{Messages: 1000, Bytes: 8000, SumTime: 1000 * 400_000, MaxLate: int64(i+1) * 1e6}
		k.Late[state.Bucket(1)] = 980
		k.Late[state.Bucket(k.MaxLate)], k.OverP99, k.SumLate = 20, 20, k.SumTime/100
		c := state.LinkStats{FirstPosted: 1, LastVisible: 2, ModelBusy: 100, WallBusy: 100}
		c.Size[0] = k
		in.Hops = append(in.Hops, state.HopStatus{Index: i, Kind: link.Link, Dst: i, Spec: link.Spec{Latency: 1}})
		in.Job.LinkStats = append(in.Job.LinkStats, c)
	}
	return in
}

// 50 late links are one cause, the worst three links, and the number of the others.
func TestLinesOfManyLateLinks(t *testing.T) {
	v := Judge(late(50))
	if v.Cause != CauseHost || len(v.Findings) != 50 || len(v.Reasons) != 50 || !v.SlowHost {
		t.Fatalf("cause %s, %d findings, %d reasons", v.Cause, len(v.Findings), len(v.Reasons))
	}
	if want := "host busy: 28 runnable on 2 cores; lateness p99 50ms on node0:node50, wanted 20us"; v.Summary != want {
		t.Errorf("%s\nwant %s", v.Summary, want)
	}
	got := v.Lines("--verbose")
	for i, want := range []string{v.Summary, "node0:node50, messages <= 4 KiB: 20 of 1000 were later than",
		"node0:node49, ", "node0:node48, ", "and 47 more: --verbose"} {
		if len(got) != 5 || !strings.HasPrefix(got[i], want) {
			t.Fatalf("line %d of %q: want %q", i, got, want)
		}
	}
	if all := v.Lines(""); len(all) != 51 || !strings.HasPrefix(all[1], "node0:node1, ") ||
		strings.Contains(all[50], "more") {
		t.Errorf("with all: %q", all)
	}
}

func TestSummary(t *testing.T) {
	wide := late(3)
	for name, tc := range map[string]struct {
		in      Input
		change  func(*Input)
		cause   Cause
		summary string
	}{
		"idle host": {late(1), func(in *Input) { in.Load = &Load{Runnable: 1.2, Cores: 16} }, CauseHost,
			"host too slow: 1 runnable on 16 cores; lateness p99 1ms on node0:node1, wanted 20us"},
		"load not known": {late(1), func(in *Input) { in.Load = nil }, CauseHost,
			"host: lateness p99 1ms on node0:node1, wanted 20us"},
		"short messages": {late(1), func(in *Input) {
			in.Load, in.Job.LinkStats[0].Size[0].SumTime = nil, 1e6
			in.Job.LinkStats[0].Size[0].SumLate = 0
		}, CauseHost,
			"host: lateness p99 1ms on node0:node1, wanted 5us"},
		"time scale 4": {late(1), func(in *Input) { in.Load, in.TimeScale = nil, 4 }, CauseHost,
			"host: lateness p99 250us on node0:node1, wanted 5us"},
		"a median a million times over its limit": {late(2), func(in *Input) {
			in.Load, in.Job.LinkStats[0].Size[0].OverP50 = nil, 600
			in.Job.LinkStats[0].Size[0].Late = [len(state.Class{}.Late)]uint32{}
			in.Job.LinkStats[0].Size[0].Late[state.Bucket(1e9)] = 1000
			in.Job.LinkStats[0].Size[0].OverP99, in.Job.LinkStats[0].Size[0].MaxLate = 0, 2e9
		}, CauseHost, "host: lateness p99 2ms on node0:node2, wanted 20us"},
		"rate alone": {late(1), func(in *Input) {
			in.Load, in.Job.LinkStats[0].Size[0] = nil, state.Class{}
			in.Job.LinkStats[0].WallBusy = 110
		}, CauseHost,
			"host: bytes took 10.0 % longer than in the model on node0:node1, wanted 2 %"},
		"the clock went on without a thread": {late(0),
			func(in *Input) { in.Job.Joined, in.Job.Left, in.Job.Reasons = 2, 0, state.NotWaitedFor }, CauseHost,
			"host busy: 28 runnable on 2 cores; a thread ran for so long that the virtual clock went on without it, so times are not exact: give --compute-hold 1m (or DDLEMU_COMPUTE_HOLD=1m)"},
		"late and a dead rank": {late(3), func(in *Input) { in.Job.Reasons = state.PeerDied }, CauseJob,
			"job: a rank died"},
		"late, a dead rank, and a change that failed": {late(3),
			func(in *Input) { in.Job.Reasons = state.PeerDied | state.NotShaped }, CauseFabric,
			"fabric: a change of the links could not be put into force: see the fabric's events"},
		"late and around the links": {late(3), func(in *Input) { in.Job.Reasons = state.NodesDiffer | state.SharedGPU },
			CauseBypass,
			"bypass: NCCL saw another number of nodes than the fabric has: some traffic went around the emulated links"},
		"around the links, and nobody": {late(0),
			func(in *Input) { in.Job.Joined, in.Job.Left, in.Job.Reasons = 0, 0, state.NotEmulated }, CauseJob,
			"job: no rank took part: nothing was emulated"},
		"nothing crossed": {late(0), func(*Input) {}, CauseBypass,
			"bypass: no message crossed an emulated link: nothing was emulated; see with NCCL_DEBUG=INFO which net NCCL uses, and whether the ranks are on several nodes"},
		"nothing crossed a link that was down": {late(1),
			func(in *Input) { in.Job.LinkStats[0] = state.LinkStats{Broken: 2} }, CauseJob,
			"job: node0:node1 was down for longer than the transport allows, so calls failed"},
		"down, and a dead rank": {late(1), func(in *Input) {
			in.Job.LinkStats[0].Broken, in.Job.Reasons = 2, state.PeerDied
		}, CauseJob, "job: node0:node1 was down for longer than the transport allows, so calls failed"},
		"late and beyond the model": {wide, func(in *Input) { in.Job.LinkStats[1].Stalls = 1 }, CauseModel,
			"model: node0:node2: a flow had more segments in flight than the model keeps: use a larger mtu or a shorter path"},
		"memory": {late(1), func(in *Input) {
			in.Load, in.Job.LinkStats[0].Size[0].OverP99, in.Job.LinkStats[0].HeldSends = nil, 0, 500
		}, CauseHost, "host: node0:node1: 500 of 1000 sends had to wait for shared memory: raise DDLEMU_MEMORY"},
	} {
		tc.change(&tc.in)
		v := Judge(tc.in)
		if v.Valid || v.Cause != tc.cause || v.Summary != tc.summary {
			t.Errorf("%s: %s, cause %s: %s\nwant %s: %s", name, v.Word, v.Cause, v.Summary, tc.cause, tc.summary)
		}
		if lines := v.Lines("-v"); lines[0] != v.Summary ||
			slices.Contains(lines[1:], strings.TrimPrefix(v.Summary, string(v.Cause)+": ")) {
			t.Errorf("%s: the summary is not first, or said twice: %q", name, lines)
		}
	}
}

// Of a link only the worst reason is shown, links come before rows, and what is not about a figure is always shown.
func TestLinesChoose(t *testing.T) {
	v := New(nil)
	if len(v.Lines("-v")) > 0 {
		t.Error("VALID, with lines")
	}
	v.Word, v.Reasons = "incomplete", []string{"interrupted"}
	if got := v.Lines("-v"); !slices.Equal(got, v.Reasons) {
		t.Errorf("without findings: %q", got)
	}
	v = New(nil)
	for _, f := range []Finding{
		{Cause: CauseHost, Text: "row a", Row: "a", Over: 900},
		{Cause: CauseHost, Text: "row b", Row: "b", Over: 901},
		{Cause: CauseHost, Text: "x, a little", Link: "x", Over: 1.1, Figure: "x"},
		{Cause: CauseHost, Text: "x, very", Link: "x", Over: 7},
		{Cause: CauseHost, Text: "memory"},
		{Cause: CauseHost, Text: "y", Link: "y", Over: 3},
		{Cause: CauseBypass, Text: "around"},
		{Cause: CauseJob, Text: "died"},
	} {
		v.Add(f)
	}
	want := []string{"job: died", "memory", "around", "x, very", "y", "row b", "and 2 more: -v"}
	if got := v.Lines("-v"); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := v.Lines(""); len(got) != 8 || got[1] != "row a" {
		t.Errorf("all: %q", got)
	}
}

// Every reason that a participant can set has a cause, and each cause a place in the order.
func TestEveryReasonHasACause(t *testing.T) {
	all := state.Reason(1<<63 - 1)
	found := FromReasons(all)
	if len(found) != len(all.Words()) || len(found) == 0 {
		t.Fatalf("%d findings of %d reasons", len(found), len(all.Words()))
	}
	for i, f := range found {
		if f.Text != all.Words()[i] || !slices.Contains(precedence, f.Cause) {
			t.Errorf("%q has cause %q", f.Text, f.Cause)
		}
	}
	// On the kernel datapath the only participant that stands for all traffic is the daemon.
	of := fromTraffic(state.PeerDied | state.WireOverrun | state.NotShaped)
	for i, want := range []Finding{{Cause: CauseFabric, Text: "the fabric's daemon died"},
		{Cause: CauseHost, Slow: true}, {Cause: CauseFabric}} {
		if f := of[i]; f.Cause != want.Cause || f.Slow != want.Slow || want.Text != "" && f.Text != want.Text {
			t.Errorf("%+v, want %+v", f, want)
		}
	}
}

// The verdicts of two runs joined have the cause that explains both, and the larger load.
func TestJoin(t *testing.T) {
	v := New(nil)
	v.Join(New(&Load{Runnable: 3, Cores: 2}))
	if !v.Valid || v.Summary != "" || len(v.Lines("-v")) != 0 {
		t.Errorf("of two VALID runs: %+v", v)
	}
	v.Join(Judge(late(2)))
	v.Join(New(&Load{Runnable: 1, Cores: 2}))
	first := Judge(late(2))
	first.Load, first.Summary = nil, ""
	if first.Join(New(&Load{Runnable: 28, Cores: 2})); first.Summary != v.Summary {
		t.Errorf("a load that is known later: %q", first.Summary)
	}
	if want := "host busy: 28 runnable on 2 cores; lateness p99 2ms on node0:node2, wanted 20us"; v.Summary != want ||
		len(v.Findings) != 2 {
		t.Errorf("%+v", v)
	}
	v.Add(Finding{Cause: CauseFabric, Text: "gone"})
	if v.Cause != CauseFabric || v.Summary != "fabric: gone" {
		t.Errorf("%+v", v)
	}
}

// JSON has all reasons with their causes, and the fields of before.
func TestJSON(t *testing.T) {
	text, err := json.Marshal(Judge(late(50)))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Verdict, Cause, Summary string
		Reasons                 []string
		Findings                []struct {
			Cause, Text, Link string
			Over              float64
		}
		Load struct{ Runnable, Cores float64 }
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Verdict != "INVALID" || got.Cause != "host" || !strings.HasPrefix(got.Summary, "host busy: ") ||
		len(got.Reasons) != 50 || len(got.Findings) != 50 || got.Load.Cores != 2 {
		t.Fatalf("%s", text)
	}
	for i, f := range got.Findings {
		if f.Cause != "host" || f.Text != got.Reasons[i] || f.Link != fmt.Sprintf("node0:node%d", i+1) || f.Over < 1 {
			t.Errorf("%+v", f)
		}
	}
	if text, _ := json.Marshal(New(nil)); strings.Contains(string(text), "cause") ||
		!strings.Contains(string(text), `"findings":[]`) {
		t.Errorf("VALID: %s", text)
	}
}

// A run that was stopped is incomplete, whatever was found before or is found after, and so is what it is joined to.
func TestStop(t *testing.T) {
	late := Finding{Cause: CauseHost, Text: "late", Over: 2, Slow: true}
	stopped := New(nil)
	stopped.Add(Finding{Cause: CauseJob, Text: "3 wrong elements"})
	stopped.Stop("interrupted: 1 of 2 rows measured")
	stopped.Add(late)
	all := New(nil)
	all.Join(stopped)
	all.Join(New(nil))
	for name, v := range map[string]Verdict{"stopped": stopped, "joined": all} {
		if v.Valid || v.SlowHost || v.Word != Incomplete || v.Summary != "interrupted: 1 of 2 rows measured" {
			t.Errorf("%s: %+v", name, v)
		}
		if got, want := strings.Join(v.Lines("--verbose"), "; "),
			"interrupted: 1 of 2 rows measured; 3 wrong elements; late"; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if v.Reasons[0] != v.Summary || len(v.Reasons) != 3 {
			t.Errorf("%s: %q", name, v.Reasons)
		}
	}
}
