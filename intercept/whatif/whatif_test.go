// SPDX-License-Identifier: Apache-2.0

package whatif

import (
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

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
// moves with what it waits for, and what the rank computed before it stays. If the rank computed during its first call
// too, it makes the second one when it did.
func TestChanges(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	tr := replaytest.TwoJobs(t, f)
	all := make([]int, len(f.Hops))
	for h := range all {
		all[h] = h
	}
	for name, tc := range map[string]struct {
		change                Change
		before, after, during float64 // us, of all calls
		calls                 int
	}{
		"nothing":     {Change{}, 200 + 30 + 100, 200 + 30 + 100, 200 + 30 + 100, 3},
		"without B":   {Change{Without: map[int]bool{1: true}}, 200 + 30 + 100, 100 + 30 + 100, 230 + 100, 2},
		"twice":       {Change{Hops: all, Spec: Faster(2)}, 200 + 30 + 100, 100 + 30 + 50, 230 + 50, 3},
		"half":        {Change{Hops: all, Spec: Faster(0.5)}, 200 + 30 + 100, 400 + 30 + 200, 400 + 200, 3},
		"one port":    {Change{Hops: []int{3}, Spec: Faster(2)}, 200 + 30 + 100, 100 + 30 + 100, 230 + 100, 3},
		"other links": {Change{Fabric: replaytest.Fabric(t, 3)}, 200 + 30 + 100, 200 + 30 + 100, 200 + 30 + 100, 3},
	} {
		r := of(t, f, tr, tc.change)
		if !near(r.Before[0].Ns, tc.before) || !near(r.After[0].Ns, tc.after) ||
			!near(r.During[0].Ns, tc.during) || r.IsRange(0) != (tc.after != tc.during) || r.Before[0].Calls != tc.calls ||
			r.Never != 0 {
			t.Errorf("%s: %+v, want %.0f us before, %.0f or %.0f us after, %d calls", name, r, tc.before, tc.after,
				tc.during, tc.calls)
		}
	}
	if _, err := New(f, tr).Of([]Change{{Fabric: replaytest.Fabric(t, 4)}}); err == nil ||
		!strings.Contains(err.Error(), "has 4 NICs") {
		t.Errorf("a fabric with another number of nodes: %v", err)
	}
}

// A call that has not ended has no time.
func TestUnfinishedCallsAreLeftOut(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	tr := replaytest.TwoJobs(t, f)
	m := &tr.Messages[tr.Calls[len(tr.Calls)-1].Messages[0]]
	m.Received, m.Sent = false, false
	if r := of(t, f, tr, Change{}); r.Before[0].Calls != len(tr.Calls)-1 {
		t.Errorf("%+v", r)
	}
}

// The calls of a warm-up are played, because others wait for them, but no sum has them: neither here nor in why.
func TestWarmupsAreLeftOut(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	tr := replaytest.TwoJobs(t, f)
	whole := of(t, f, tr, Change{})
	tr.Calls[0].Warmup = true
	r := of(t, f, tr, Change{})
	if got, want := r.Before[0], whole.Before[0]; got.Calls != want.Calls-1 || r.Before[1].Calls != got.Calls ||
		r.Never != 0 {
		t.Errorf("%+v, without a warm-up %+v", got, want)
	}
	played, err := replay.Play(f, tr)
	if err != nil {
		t.Fatal(err)
	}
	explained, err := why.Of(played)
	if err != nil {
		t.Fatal(err)
	}
	if n := explained.Measured(); n != len(tr.Calls)-1 || explained.Functions[0].Calls != n ||
		len(explained.Worst(10)) != n || len(explained.Calls) != len(tr.Calls) {
		t.Errorf("why: %d of %d calls, %+v", n, len(explained.Calls), explained.Functions)
	}
}

// A change of a link while the job ran is changed too, and what never arrives is counted.
func TestChangesWhileItRan(t *testing.T) {
	f := replaytest.Fabric(t, 3)
	tr := replaytest.TwoJobs(t, f)
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

// The plays that are made at once are one work.
func TestPartsTogether(t *testing.T) {
	var told []float64
	watch := together(func(part float64) error {
		told = append(told, part)
		return nil
	}, 2)
	for _, step := range []struct {
		play int
		part float64
	}{{0, 0.5}, {1, 0.5}, {0, 1}, {1, 1}} {
		if err := watch(step.play)(step.part); err != nil {
			t.Fatal(err)
		}
	}
	if want := []float64{0.25, 0.5, 0.75, 1}; !slices.Equal(told, want) {
		t.Errorf("it told %v, want %v", told, want)
	}
	if together(nil, 2)(0) != nil {
		t.Error("there is a watch that tells nobody")
	}
}
