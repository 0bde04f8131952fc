// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/shaper/ledger"
	"github.com/ddlemu/ddlemu/shaper/link"
)

const size = 1_250_000 // bytes: 100 us on a link

// twoJobs is a job of ranks on nodes 0 and 1 and one of ranks on nodes 2 and 1. Each sends one message,
// in a call of its own, and the first one a second one, 30 us after the first one was complete.
func twoJobs(t *testing.T, f *replay.Fabric) *messages.Trace {
	t.Helper()
	tr := &messages.Trace{Jobs: []string{"A", "B"}, Nodes: map[[2]int]int{{0, 0}: 0, {0, 1}: 1, {1, 0}: 2, {1, 1}: 1}}
	tr.Ranks = []ledger.Info{{World: 2, Virtual: true, TimeScale: 1}}
	for job, from := range []int{0, 2} {
		tr.Connections = append(tr.Connections, messages.Connection{Job: job, Flow: uint64(job), Sender: 0, Receiver: 1, Src: from, Dst: 1, Order: uint64(job)})
	}
	add := func(job, from int, number uint64, posted int64) {
		c := messages.Call{Name: "Send", Comm: uint64(job), Seq: int(number), Tasks: []int{len(tr.Tasks), len(tr.Tasks) + 1}, Messages: []int{len(tr.Messages)}}
		for rank, function := range []string{"Send", "Recv"} {
			tr.Tasks = append(tr.Tasks, messages.Task{Job: job, Owner: rank, Rank: rank, Comm: uint64(job), Func: function, Ranks: 2, Begun: posted, Call: len(tr.Calls)})
		}
		tr.Messages = append(tr.Messages, messages.Message{
			Job: job, Flow: uint64(job), Number: number, Sender: 0, Receiver: 1, Src: from, Dst: 1, Size: size, HasSend: true, Posted: posted, HasReceive: true,
			SendTask: c.Tasks[0], ReceiveTask: c.Tasks[1],
		})
		tr.Calls = append(tr.Calls, c)
	}
	add(0, 0, 0, 0)
	add(1, 2, 0, 0)
	times := play(t, f, tr)
	add(0, 0, 1, times[0].Sent+30_000)
	play(t, f, tr)
	return tr
}

// play sets what the model says.
func play(t *testing.T, f *replay.Fabric, tr *messages.Trace) []replay.Times {
	t.Helper()
	r, err := replay.AsPosted(f, tr, replay.Prepare(tr))
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range r.Times {
		m := &tr.Messages[i]
		m.Sent, m.Received, m.Due, m.Complete, m.SendEnds, m.ReceiveEnds = true, true, x.Due, x.Sent, x.Sent, x.Due
	}
	return r.Times
}

func of(t *testing.T, f *replay.Fabric, tr *messages.Trace, c Change) *Result {
	t.Helper()
	r, err := New(f, tr).Of([]Change{c})
	if err != nil {
		t.Fatal(err)
	}
	return r[0]
}

// near says whether a time is about what it should be, in us.
func near(ns int64, us float64) bool { return float64(ns) > 990*us && float64(ns) < 1060*us }

// Both jobs share the receiving port, so each takes twice as long; alone it does not. The second post
// moves with what it waits for, and what the rank computed before it stays.
func TestChanges(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	tr := twoJobs(t, f)
	all := make([]int, len(f.Hops))
	for h := range all {
		all[h] = h
	}
	for name, tc := range map[string]struct {
		change        Change
		before, after float64 // us, of all calls
		calls         int
	}{
		"nothing":     {Change{}, 200 + 30 + 100, 200 + 30 + 100, 3},
		"without B":   {Change{Without: map[int]bool{1: true}}, 200 + 30 + 100, 100 + 30 + 100, 2},
		"twice":       {Change{Hops: all, Spec: Faster(2)}, 200 + 30 + 100, 100 + 30 + 50, 3},
		"one port":    {Change{Hops: []int{3}, Spec: Faster(2)}, 200 + 30 + 100, 100 + 30 + 100, 3},
		"other links": {Change{Fabric: replaytest.Fabric(t, 3)}, 200 + 30 + 100, 200 + 30 + 100, 3},
	} {
		r := of(t, f, tr, tc.change)
		if !near(r.Before[0].Ns, tc.before) || !near(r.After[0].Ns, tc.after) || r.Before[0].Calls != tc.calls || r.Never != 0 {
			t.Errorf("%s: %+v, want %.0f us before, %.0f us after, %d calls", name, r, tc.before, tc.after, tc.calls)
		}
	}
	if _, err := New(f, tr).Of([]Change{{Fabric: replaytest.Fabric(t, 4)}}); err == nil || !strings.Contains(err.Error(), "has 4 NICs") {
		t.Errorf("a fabric with another number of nodes: %v", err)
	}
}

// A change of a link while the job ran is changed too, and what never arrives is counted.
func TestChangesWhileItRan(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	tr := twoJobs(t, f)
	hop := f.Link(0, 1)
	slow := f.Hops[hop].Spec
	slow.Bandwidth /= 10
	f.Changes = []ledger.Change{{Time: 0, Hop: hop, Spec: slow}}
	r := of(t, f, tr, Change{Hops: []int{hop}, Spec: Faster(10)})
	if !near(r.Before[0].Ns, 1000+30+1000) || !near(r.After[0].Ns, 200+30+100) {
		t.Errorf("%+v", r)
	}
	r = of(t, f, tr, Change{Hops: []int{hop}, Spec: func(_ int, s link.Spec) link.Spec { s.Down = true; return s }})
	if r.Never != 1 || r.After[0].Calls != 1 {
		t.Errorf("%+v", r)
	}
}
