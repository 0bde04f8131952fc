// SPDX-License-Identifier: Apache-2.0

package verify

// Exact compares each message with its time in the model. Only for a fabric with a virtual clock: there the two are the
// same.
type Exact struct {
	Messages int     `json:"messages"`
	Off      int     `json:"messages_off"` // that were visible at another time, or only in one of the two
	Worst    float64 `json:"worst_off_us"` // stated time
}

// dueOf is the trace of the model in which all post as they did.
func (x *messages) dueOf(flows []Flow, traces []Trace) []Trace {
	due := x.play(flows, ids(traces), postsOf(traces), forever)
	if e := x.report.Exact; e != nil {
		for i := range traces {
			e.add(traces[i].Visible, due[i].Visible)
		}
	}
	return due
}

// add compares the times of a flow's messages.
func (e *Exact) add(got, due []int64) {
	e.Messages += max(len(got), len(due))
	e.Off += max(len(got), len(due)) - min(len(got), len(due))
	for i := range min(len(got), len(due)) {
		if off := got[i] - due[i]; off != 0 {
			e.Off++
			e.Worst = max(e.Worst, float64(max(off, -off))/1e3)
		}
	}
}

func (f *finder) exact(e *Exact) {
	if e != nil && e.Off > 0 {
		f.add(1, "%d of %d messages were not visible at the model's time, by up to %s us", e.Off, e.Messages,
			Digits(e.Worst))
	}
}
