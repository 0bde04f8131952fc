// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// fake is a fabric in virtual time that may differ from the one asked for.
type fake struct {
	asked, real *Model
	hops        []state.HopStatus
	now         int64
	made        map[[2]int]uint64

	late        func(n int) int64 // lateness of message n of a flow, ns
	descheduled int64             // how long the process loses its processor now and then, ns
	lose        bool              // nothing arrives
	others      int
	words       []string
}

func (f *fake) Hops() []state.HopStatus {
	return append([]state.HopStatus(nil), f.hops...)
}
func (f *fake) Findings() []verdict.Finding { return jobFindings(f.words) }
func (f *fake) Others() int                 { return f.others }

func jobFindings(words []string) (found []verdict.Finding) {
	for _, w := range words {
		found = append(found, verdict.Finding{Cause: verdict.CauseJob, Text: w})
	}
	return found
}

func (f *fake) Run(_ context.Context, flows []Flow, d, tail time.Duration) ([]Trace, error) {
	f.now += 1e9
	start := f.now
	ids, posts := make([]uint64, len(flows)), make([][]int64, len(flows))
	spaced := flows[0].Spacing > 0
	for i, fl := range flows {
		key := [2]int{fl.Src, fl.Dst}
		ids[i] = link.Draw(uint64(fl.Src), uint32(fl.Dst), 9, 9, f.made[key])
		f.made[key]++
		for n := 0; spaced && n < fl.Messages; n++ {
			posts[i] = append(posts[i], int64(n)*int64(fl.Spacing))
		}
	}
	if !spaced {
		posts = nil
	}
	net := f.real.network()
	defer net.Close()
	until := int64(d)
	if spaced {
		until = forever
	}
	traces := f.real.playOn(net, flows, ids, posts, until)
	for i := range f.hops {
		c := &f.hops[i].Counters
		c.Bytes, c.LineBytes, c.Drops = c.Bytes+net.Hops[i].Counters.Bytes, c.LineBytes+net.Hops[i].Counters.LineBytes,
			c.Drops+net.Hops[i].Counters.Drops
	}
	for i := range traces {
		for n := range traces[i].Posted {
			traces[i].Posted[n] += start
			traces[i].Returned[n] += start
		}
		if f.lose {
			traces[i].Visible, traces[i].Missing = nil, nil
		}
		f.see(&traces[i], start)
		f.now = max(f.now, start+int64(d))
	}
	return traces, nil
}

// see delays the visible times of t by lateness and descheduling.
func (f *fake) see(t *Trace, start int64) {
	for n := range t.Visible {
		at := t.Visible[n] + start
		if f.late != nil {
			at += f.late(n)
		}
		t.Visible[n], t.Missing[n] = at, at-100
		if phase := at % (4 * f.period()); phase < f.descheduled {
			// Last looked for before the process lost its processor.
			t.Visible[n], t.Missing[n] = at-phase+f.descheduled, at-phase
		}
	}
}

// period is a quarter of the time between two losses of the processor.
func (f *fake) period() int64 { return max(f.descheduled, 1) }

// newFake is a fake that carries the fabric c after change.
func newFake(t *testing.T, c *configs.Fabric, change func(*configs.Fabric)) *fake {
	t.Helper()
	is := *c
	if change != nil {
		change(&is)
	}
	f := &fake{asked: model(t, c), real: model(t, &is), made: map[[2]int]uint64{}}
	for i, h := range f.asked.fab.Hops {
		f.hops = append(f.hops, state.HopStatus{Index: i, Spec: h.Spec})
	}
	return f
}

// model is the model of c.
func model(t *testing.T, c *configs.Fabric) *Model {
	t.Helper()
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(statetest.New(t, fab, "verify"))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantInvalid fails unless r is INVALID with a reason that contains says.
func wantInvalid(t *testing.T, r *Report, says string) {
	t.Helper()
	if r.Verdict != "INVALID" || !strings.Contains(strings.Join(r.Reasons, "\n"), says) {
		t.Errorf("%s %q, want INVALID with %q", r.Verdict, r.Reasons, says)
	}
}

// measured is the report of Measure.
func (f *fake) measured(t *testing.T) *Report {
	t.Helper()
	r, err := Measure(t.Context(), f.asked, f, Options{Time: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
