// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// places are a link of 10 Gb/s from a port of 40 to one of 5, and a trunk without limit.
var places = []*status.Place{
	{Kind: link.TxPort, Name: "node0 tx", NIC: "node0", Direction: "tx", Path: []int{0}},
	{Kind: link.RxPort, Name: "node1 rx", NIC: "node1", Direction: "rx", Path: []int{1}},
	{Kind: link.Link, Name: "node0:node1", From: "node0", To: "node1", Path: []int{0, 2, 3, 1}},
	{Kind: link.Trunk, Name: "leaf0:spine0", From: "leaf0", To: "spine0", Path: []int{3}},
}

// at is a sample at places at this real time and this time of their clock, when the link has carried so much.
func at(up, clock time.Duration, c link.Counters) *Sample {
	f := &status.Reading{Name: "pair", Clock: "virtual", TimeScale: 4, Up: up, Time: clock}
	for i, rate := range []uint64{40e9, 5e9, 10e9, 0} {
		f.Hops = append(f.Hops, status.HopReading{Place: places[i], Spec: link.Spec{Bandwidth: rate}})
	}
	f.Hops[2].Counters = c
	return &Sample{Reading: f}
}

func (l *Sample) with(jobs ...status.Job) *Sample {
	l.Jobs, l.Verdicts = jobs, make([]status.Judged, len(jobs))
	return l
}

func TestRatesArePerSecondOfTheFabricsClock(t *testing.T) {
	a := at(10*time.Second, time.Second, link.Counters{Bytes: 1000, LineBytes: 1100})
	b := at(12*time.Second, time.Second+5*time.Millisecond, link.Counters{Bytes: 1_251_000, LineBytes: 1_501_100})
	v := Compare(a, b)
	if v.RealNs != 2e9 || v.Ns != 5e6 || v.Ratio != 0.0025 || v.Up != 12e9 || v.Time != 1_005_000_000 {
		t.Errorf("got %+v", v)
	}
	l := v.Links[0]
	// 1.25 MB in 5 ms, of the 5 Gb/s of the slowest hop of the path; 1.5 MB on the line.
	if l.RateBps != 2e9 || l.MayCarryBps != 5e9 || math.Abs(l.Load-0.48) > 1e-9 || l.Bytes != 1_251_000 || !l.Active() {
		t.Errorf("got %+v", l)
	}
	if trunk := v.Links[1]; trunk.RateBps != 0 || trunk.MayCarryBps != 0 || trunk.Load != 0 || trunk.Active() ||
		trunk.Kind != link.Trunk {
		t.Errorf("got %+v", trunk)
	}
	if p := v.Ports[1]; p.NIC != "node1" || p.Direction != "rx" || p.MayCarryBps != 5e9 || p.From != "" {
		t.Errorf("got %+v", p)
	}
}

func TestRatesWhileTheClockStandsStill(t *testing.T) {
	v := Compare(at(1e9, 1e9, link.Counters{}), at(2e9, 1e9, link.Counters{Bytes: 5000, LineBytes: 5000}))
	if l := v.Links[0]; l.RateBps != 0 || l.Load != 0 || v.Ratio != 0 || l.New.Bytes != 5000 || !l.Active() {
		t.Errorf("got %+v", l)
	}
}

// Bytes are counted when they reserve the hop. What has not passed it yet is no rate, or a link would carry more than
// it can.
func TestRatesLeaveOutWhatWaits(t *testing.T) {
	full := at(2e9, 1e6, link.Counters{Bytes: 5_000_000, LineBytes: 5_000_000})
	full.Hops[2].Reserved = 3 * time.Millisecond // 3.75 MB at 10 Gb/s
	drained := at(3e9, 4e6, full.Hops[2].Counters)
	for _, tc := range []struct {
		name string
		a, b *Sample
		want float64
	}{
		{"while it fills", at(1e9, 0, link.Counters{}), full, 10e9},
		{"while it drains", full, drained, 10e9},
	} {
		if got := Compare(tc.a, tc.b).Links[0].RateBps; math.Abs(got/tc.want-1) > 1e-9 {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// A link is made ten times slower while a queue waits for it. Its rate is no higher than that of the faster one.
func TestRatesWhileTheLinkIsChanged(t *testing.T) {
	fast, slow := at(1e9, 0, link.Counters{}), at(2e9, 5e6, link.Counters{Bytes: 5_000_000, LineBytes: 5_000_000})
	slow.Hops[2].Spec.Bandwidth, slow.Hops[2].Reserved = 1e9, 3*time.Millisecond // at the old rate: 3.75 MB
	for _, tc := range []struct {
		a, b *Sample
		want uint64
	}{{fast, slow, 5e9}, {slow, at(3e9, 5.1e6, link.Counters{Bytes: 5_000_000, LineBytes: 5_000_000}), 5e9}} {
		l := Compare(tc.a, tc.b).Links[0]
		if l.MayCarryBps != tc.want || l.RateBps > float64(tc.want) || l.Load > 1 {
			t.Errorf("rate %g, load %g, may carry %d, want at most %d", l.RateBps, l.Load, l.MayCarryBps, tc.want)
		}
	}
}

func TestQueueIsTheLongestWaitOfThePath(t *testing.T) {
	b := at(2e9, 1e6, link.Counters{})
	b.Hops[0].Reserved, b.Hops[1].Reserved = time.Microsecond, 7*time.Microsecond
	v := Compare(at(1e9, 0, link.Counters{}), b)
	if got := *v.Links[0].QueueNs; got != 7000 {
		t.Errorf("%d ns wait", got)
	}
	if got := *v.Ports[0].QueueNs; got != 1000 {
		t.Errorf("%d ns wait at the port", got)
	}
	if v.Links[0].Active() {
		t.Error("a link is active because something waits at a port that it shares")
	}
	b.Datapath = configs.Kernel
	if Compare(at(1e9, 0, link.Counters{}), b).Links[0].QueueNs != nil {
		t.Error("the kernel datapath does not say what waits")
	}
}

func TestLosses(t *testing.T) {
	a, b := at(1e9, 0, link.Counters{Drops: 7, Pauses: 1, ECNMarks: 1}),
		at(2e9, 1e6, link.Counters{Drops: 10, Pauses: 2, ECNMarks: 4})
	if l := Compare(a, b).Links[0]; l.Drops != 10 || l.New.Drops != 3 || l.New.Pauses != 1 || l.New.ECNMarks != 3 ||
		!l.Active() {
		t.Errorf("got %+v", l)
	}
	// A reader on another core may see a counter smaller than before: that is no rate of 2^64.
	if l := Compare(b, a).Links[0]; l.New.Drops != 0 || l.RateBps != 0 {
		t.Errorf("got %+v", l)
	}
}

func TestLateIsThatOfTheMessagesBetweenTheSamples(t *testing.T) {
	// job has sent messages that took so long, of which these were late, in ns.
	job := func(started int64, messages uint64, took int64, late ...int64) status.Job {
		c := state.JobStatus{Started: started, LinkStats: make([]state.LinkStats, len(places))}
		c.LinkStats[2].FirstPosted = 1
		size := &c.LinkStats[2].Size[1]
		size.Messages, size.SumTime = messages, took
		for _, ns := range late {
			size.SumLate, size.MaxLate = size.SumLate+ns, max(size.MaxLate, ns)
			size.Late[state.Bucket(ns)]++
		}
		return status.Job{Number: 3, Running: true, Messages: messages, Bytes: 1000 * messages, Counted: c}
	}
	before := job(5, 2, 1000, 0, 900_000)
	after := job(5, 4, 201_000, 0, 900_000, 0, 8000)
	for _, tc := range []struct {
		name     string
		a, b     []status.Job
		messages uint64
		percent  float64
		p99Us    float64 // up to a bucket's width more; times are divided by the time scale of 4
		rate     float64
	}{
		{"the same job", []status.Job{before}, []status.Job{after}, 2, 4, 2, 16e6},
		{"a job that began between them", nil, []status.Job{before}, 2, 90000, 225, 16e6},
		{"another job with its number", []status.Job{job(4, 100, 1, 1)}, []status.Job{before}, 2, 90000, 225, 16e6},
	} {
		v := Compare(at(1e9, 0, link.Counters{}).with(tc.a...), at(2e9, 1e6, link.Counters{}).with(tc.b...))
		l := v.Links[0]
		if l.NewMessages != tc.messages || l.LatePercent == nil || math.Abs(*l.LatePercent-tc.percent) > 1e-6 {
			t.Errorf("%s: %d messages, %v %%", tc.name, l.NewMessages, l.LatePercent)
		}
		if l.LateP99Us == nil || *l.LateP99Us < tc.p99Us*0.99 || *l.LateP99Us > tc.p99Us*1.25 {
			t.Errorf("%s: p99 %v us, want %v", tc.name, *l.LateP99Us, tc.p99Us)
		}
		if got := *v.Jobs[0].RateBps; math.Abs(got-tc.rate) > 1 {
			t.Errorf("%s: rate %v", tc.name, got)
		}
	}
	idle, again := at(1e9, 0, link.Counters{}).with(after), at(2e9, 1e6, link.Counters{}).with(after)
	if l := Compare(idle, again).Links[0]; l.LatePercent != nil || l.LateP99Us != nil || l.Active() {
		t.Errorf("no message came: %+v", l)
	}
}

func TestP99(t *testing.T) {
	l := &lateness{took: 1}
	l.buckets[0], l.most = 99, 5
	if late, ok := l.p99(); !ok || late != 0 {
		t.Errorf("got %d, %v", late, ok)
	}
	l.buckets[5] = 2
	if late, ok := l.p99(); !ok || late != 5 {
		t.Errorf("got %d, %v", late, ok)
	}
	l.buckets[state.LateBuckets-1], l.most = 100, 1<<40
	if late, _ := l.p99(); late != 1<<40 {
		t.Errorf("got %d", late)
	}
}

func TestDownLink(t *testing.T) {
	b := at(2e9, 1e6, link.Counters{})
	b.Hops[2].Spec.Down = true
	if l := Compare(at(1e9, 0, link.Counters{}), b).Links[0]; l.Up || l.MayCarryText() != "down" {
		t.Errorf("got %+v", l)
	}
}

// A job that is over is in one more line, not in one of each interval. The probes of verify have no verdict here.
func TestLinesOfJobsThatAreOver(t *testing.T) {
	sample := func(up time.Duration, running bool) *Sample {
		return at(up, up, link.Counters{}).with(status.Job{Number: 3, Counted: state.JobStatus{Started: 7},
			Running: running, Verify: true})
	}
	lines := func(a, b *Sample) (jobs int) {
		for _, line := range Compare(a, b).Lines() {
			if strings.Contains(line, "job 3") {
				jobs++
				if !strings.Contains(line, "probes of verify") {
					t.Error(line)
				}
			}
		}
		return jobs
	}
	for _, tc := range []struct {
		before, now bool
		want        int
	}{{true, true, 1}, {true, false, 1}, {false, false, 0}} {
		if got := lines(sample(1e9, tc.before), sample(2e9, tc.now)); got != tc.want {
			t.Errorf("running %v, then %v: %d lines, want %d", tc.before, tc.now, got, tc.want)
		}
	}
	if got := lines(at(1e9, 1e9, link.Counters{}), sample(2e9, false)); got != 1 {
		t.Errorf("a job that came and ended between the samples: %d lines", got)
	}
}
