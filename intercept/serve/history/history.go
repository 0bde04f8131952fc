// SPDX-License-Identifier: Apache-2.0

// Package history keeps what the ports and links of a fabric did since the last job has begun.
package history

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// most is the most samples that are kept. A job of any length has that many.
const most = 240

// noJob means: no job.
const noJob = -1

// History is the history of one fabric. It begins with a job that begins while no other one runs, and ends with the
// last of the jobs that run at the same time. If no job is of the user's, it is the history of all traffic of the
// kernel datapath. It is not safe for concurrent use.
type History struct {
	created int64 // the fabric
	names   []string
	known   []status.JobID
	runs    bool
	job     int
	traffic bool // it is the history of all traffic
	whole   bool
	last    *sample
	samples []sample // the first one is from before the first byte of the job
}

// sample is the counters of all hops at a time of the network, in ns.
type sample struct {
	now   int64
	busy  []int64
	bytes []uint64
}

// Add adds how the fabric is now.
func (h *History) Add(f *status.Reading) {
	if h.created != f.Created {
		*h = History{created: f.Created, job: noJob}
		for i := range f.Hops {
			h.names = append(h.names, f.Hops[i].Name)
		}
	}
	jobs := shown(f)
	now, runs := sampleOf(f, jobs), running(jobs)
	fresh := h.begun(jobs)
	if fresh != nil && (!h.runs || h.traffic && !fresh.Traffic) {
		h.begin(f, &now, fresh, len(jobs) == 1)
	}
	if h.runs || runs || fresh != nil {
		h.keep(now)
	}
	h.last, h.runs, h.known = &now, runs, nil
	for _, j := range jobs {
		h.known = append(h.known, j.ID())
	}
}

func sampleOf(f *status.Reading, jobs []*status.Job) sample {
	l := sample{now: int64(f.Time)}
	for i := range f.Hops {
		l.busy, l.bytes = append(l.busy, f.Hops[i].BusyNs), append(l.bytes, f.Hops[i].Bytes)
	}
	// On a real clock the network's time goes on after the end of the last job.
	if j := f.LastJob(); j != nil && !running(jobs) && f.Clock != "virtual" {
		l.now = min(l.now, timeOf(f, j.Counted.Ended))
	}
	return l
}

// timeOf is the time of the network at a time of CLOCK_MONOTONIC, on a real clock.
func timeOf(f *status.Reading, at int64) int64 {
	return max(at-f.Created, 0) / int64(max(f.TimeScale, 1))
}

// shown are the user's jobs, or the job of all traffic if there are none.
func shown(f *status.Reading) (jobs []*status.Job) {
	for i := range f.Jobs {
		if !f.Jobs[i].Traffic {
			jobs = append(jobs, &f.Jobs[i])
		}
	}
	if len(jobs) == 0 && len(f.Jobs) > 0 {
		jobs = append(jobs, &f.Jobs[0])
	}
	return jobs
}

func running(jobs []*status.Job) bool {
	return slices.ContainsFunc(jobs, func(j *status.Job) bool { return j.Running })
}

// begun is the job that was not there at the last sample. If there are several: a running one before an ended one, then
// the latest. It is nil if there is none.
func (h *History) begun(jobs []*status.Job) (out *status.Job) {
	for _, j := range jobs {
		if slices.Contains(h.known, j.ID()) {
			continue
		}
		if out == nil || j.Running && !out.Running || j.Running == out.Running && j.Latest() > out.Latest() {
			out = j
		}
	}
	return out
}

// begin begins the history of j, with the last sample from before it. If there is none, its begin is known if it is the
// only job: all counters were 0 then.
func (h *History) begin(f *status.Reading, now *sample, j *status.Job, only bool) {
	h.job, h.traffic, h.whole, h.samples = j.Number, j.Traffic, true, nil
	switch {
	case h.last != nil:
		before := *h.last
		if f.Clock != "virtual" {
			before.now = max(before.now, min(timeOf(f, j.Counted.Started), now.now))
		}
		h.samples = []sample{before}
	case only && !j.Traffic && !f.OnKernel():
		zero := sample{busy: make([]int64, len(now.busy)), bytes: make([]uint64, len(now.bytes))}
		if f.Clock != "virtual" {
			zero.now = min(timeOf(f, j.Counted.Started), now.now)
		}
		h.samples = []sample{zero}
	default:
		h.whole = false
	}
}

// keep keeps a sample. If there are too many, the one goes that leaves the shortest time between two others. On a clock
// that stands still, the new sample takes the place of the last one.
func (h *History) keep(l sample) {
	n := len(h.samples)
	if n > 0 && l.now <= h.samples[n-1].now {
		if n > 1 {
			l.now = h.samples[n-1].now
			h.samples[n-1] = l
		}
		return
	}
	h.samples = append(h.samples, l)
	if len(h.samples) <= most {
		return
	}
	least := 1
	between := func(i int) int64 { return h.samples[i+1].now - h.samples[i-1].now }
	for i := 2; i < len(h.samples)-1; i++ {
		if between(i) < between(least) {
			least = i
		}
	}
	h.samples = slices.Delete(h.samples, least, least+1)
}
