// SPDX-License-Identifier: Apache-2.0

package history

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

const created = 1000 // ns of CLOCK_MONOTONIC

// reading is a fabric of two hops at a time: how long they were busy so far, and its jobs. Each has sent a byte in each
// ns.
func reading(clock string, now int64, busy [2]int64, jobs ...status.Job) *status.Reading {
	f := &status.Reading{Created: created, Clock: clock, TimeScale: 2, Time: time.Duration(now), Jobs: jobs}
	for i, name := range []string{"a", "b"} {
		h := status.HopReading{Place: &status.Place{Name: name}}
		h.BusyNs, h.Bytes = busy[i], uint64(busy[i])
		f.Hops = append(f.Hops, h)
	}
	return f
}

// job is one that began and ended at times of the network, on a real clock of scale 2; ended is 0 if it runs.
func job(number int, began, ended int64) status.Job {
	j := status.Job{Number: number, Running: ended == 0, Counted: state.JobStatus{Started: created + 2*began}}
	if ended > 0 {
		j.Counted.Ended = created + 2*ended
	}
	return j
}

func TestSeries(t *testing.T) {
	traffic := status.Job{Number: 7, Running: true, Traffic: true}
	for _, tc := range []struct {
		name    string
		samples []*status.Reading
		hop     string
		want    Series
	}{
		{"nothing has run", []*status.Reading{reading("real", 100, [2]int64{})}, "", Series{Job: noJob}},
		{"a job from its begin, on a real clock", []*status.Reading{
			reading("real", 100, [2]int64{50, 0}),
			reading("real", 200, [2]int64{50, 0}),
			reading("real", 300, [2]int64{50, 40}, job(3, 220, 0)),
			reading("real", 400, [2]int64{60, 90}, job(3, 220, 0)),
			reading("real", 500, [2]int64{60, 100}, job(3, 220, 440)), // it has ended
			reading("real", 600, [2]int64{60, 200}, job(3, 220, 440)),
		}, "", Series{Hop: "b", Job: 3, Whole: true, At: []int64{80, 180, 220}, Busy: []float64{0.5, 0.5, 0.25},
			Rate: []float64{4e9, 4e9, 2e9}}},
		{"the other hop", []*status.Reading{
			reading("real", 200, [2]int64{50, 0}),
			reading("real", 300, [2]int64{90, 40}, job(3, 200, 0)),
		}, "a", Series{Hop: "a", Job: 3, Running: true, Whole: true, At: []int64{100}, Busy: []float64{0.4},
			Rate: []float64{3.2e9}}},
		{"the job had begun before the first sample, alone", []*status.Reading{
			reading("real", 300, [2]int64{50, 10}, job(1, 200, 0)),
		}, "", Series{Hop: "a", Job: 1, Running: true, Whole: true, At: []int64{100}, Busy: []float64{0.5},
			Rate: []float64{4e9}}},
		{"it was not alone", []*status.Reading{
			reading("real", 300, [2]int64{50, 10}, job(1, 100, 200), job(2, 250, 0)),
			reading("real", 400, [2]int64{150, 30}, job(1, 100, 200), job(2, 250, 0)),
		}, "", Series{Hop: "a", Job: 2, Running: true, At: []int64{100}, Busy: []float64{1}, Rate: []float64{8e9}}},
		{"between two samples, on a virtual clock", []*status.Reading{
			reading("virtual", 0, [2]int64{0, 0}),
			reading("virtual", 1000, [2]int64{100, 200}, job(1, 1, 2)),
			reading("virtual", 1000, [2]int64{100, 200}, job(1, 1, 2)),
		}, "", Series{Hop: "b", Job: 1, Whole: true, At: []int64{1000}, Busy: []float64{0.2}, Rate: []float64{1.6e9}}},
		{"the next job begins anew, the one beside it does not", []*status.Reading{
			reading("virtual", 0, [2]int64{0, 0}),
			reading("virtual", 1000, [2]int64{100, 200}, job(1, 1, 2)),
			reading("virtual", 1500, [2]int64{100, 300}, job(1, 1, 2), job(2, 3, 0)),
			reading("virtual", 2000, [2]int64{100, 400}, job(1, 1, 2), job(2, 3, 0), job(3, 4, 0)),
			reading("virtual", 3000, [2]int64{100, 400}, job(1, 1, 2), job(2, 3, 5), job(3, 4, 0)),
		}, "b", Series{Hop: "b", Job: 2, Running: true, Whole: true, At: []int64{500, 1000, 2000},
			Busy: []float64{0.2, 0.2, 0}, Rate: []float64{1.6e9, 1.6e9, 0}}},
		{"one of two jobs ends, on a real clock", []*status.Reading{
			reading("real", 100, [2]int64{0, 0}),
			reading("real", 200, [2]int64{50, 0}, job(1, 100, 0), job(2, 150, 0)),
			reading("real", 300, [2]int64{90, 0}, job(1, 100, 220), job(2, 150, 0)),
		}, "", Series{Hop: "a", Job: 2, Running: true, Whole: true, At: []int64{50, 150}, Busy: []float64{1, 0.4},
			Rate: []float64{8e9, 3.2e9}}},
		{"all traffic, then a job", []*status.Reading{
			reading("real", 100, [2]int64{0, 0}, traffic),
			reading("real", 200, [2]int64{50, 0}, traffic),
			reading("real", 300, [2]int64{50, 80}, traffic, job(1, 200, 0)),
		}, "", Series{Hop: "b", Job: 1, Running: true, Whole: true, At: []int64{100}, Busy: []float64{0.8},
			Rate: []float64{6.4e9}}},
	} {
		var h History
		for _, f := range tc.samples {
			h.Add(f)
		}
		got, ok := h.Series(tc.hop)
		tc.want.Format, tc.want.ID = Format, "1000"
		for _, list := range []*[]float64{&tc.want.Busy, &tc.want.Rate} {
			*list = append([]float64{}, *list...)
		}
		tc.want.At = append([]int64{}, tc.want.At...)
		if diff := cmp.Diff(&tc.want, got); diff != "" || !ok {
			t.Errorf("%s: %v %s", tc.name, ok, diff)
		}
		if _, ok := h.Series("c"); ok {
			t.Errorf("%s: there is a hop c", tc.name)
		}
	}
	var h History
	if s, ok := h.Series(""); !ok || s.Job != noJob {
		t.Errorf("without a fabric: %+v", s)
	}
	h.Add(reading("virtual", 0, [2]int64{0, 0}))
	h.Add(reading("virtual", 9, [2]int64{9, 9}, job(1, 1, 0)))
	again := reading("virtual", 0, [2]int64{0, 0})
	again.Created++
	h.Add(again)
	if s, _ := h.Series(""); s.Job != noJob || len(s.At) != 0 || s.ID != "1001" {
		t.Errorf("another fabric has the history of the first: %+v", s)
	}
}

// However long a job is, the history has few parts, from its begin to its end, and their sum is what it sent.
func TestLongJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h History
		h.Add(reading("virtual", 0, [2]int64{0, 0}))
		now, busy := int64(0), [2]int64{}
		for range rapid.IntRange(1, 3*most).Draw(t, "samples") {
			step := rapid.Int64Range(0, 1000).Draw(t, "time")
			now += step
			busy[0] += rapid.Int64Range(0, step).Draw(t, "busy")
			h.Add(reading("virtual", now, busy, job(1, 1, 0)))
		}
		s, _ := h.Series("a")
		if now > 0 && (len(s.At) == 0 || len(s.At) >= most || s.At[len(s.At)-1] != now) {
			t.Fatalf("%d parts to %v, want up to %d", len(s.At), s.At, now)
		}
		sum, begin := 0.0, int64(0)
		for i, at := range s.At {
			if at <= begin {
				t.Fatalf("the times are %v", s.At)
			}
			sum, begin = sum+s.Rate[i]*float64(at-begin)/8e9, at
		}
		if diff := sum - float64(busy[0]); diff > 1e-3 || diff < -1e-3 {
			t.Fatalf("%g bytes, want %d", sum, busy[0])
		}
	})
}
