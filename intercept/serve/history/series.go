// SPDX-License-Identifier: Apache-2.0

package history

import (
	"fmt"
	"slices"
)

// Format is the name of the document Series.
const Format = "ddlemu.history/1"

// Series is what one port or link did, between samples of the fabric.
type Series struct {
	Format  string `json:"format"`
	ID      string `json:"id"`      // of the fabric, as in the document of its state
	Hop     string `json:"hop"`     // name
	Job     int    `json:"job"`     // number; -1 if none has run
	Running bool   `json:"running"` // a job
	// Whole says that the history begins with the job. Otherwise the job ran when the server was started.
	Whole bool      `json:"whole"`
	At    []int64   `json:"at_ns"` // time of the network since the start of the job, at the ends of the parts
	Busy  []float64 `json:"busy"`  // share of each part
	Rate  []float64 `json:"bps"`   // payload in each part
}

// Series is the series of the hop with a name; "" is the one that was busy for the longest time. ok is false if there
// is no hop with this name.
func (h *History) Series(name string) (s *Series, ok bool) {
	s = &Series{Format: Format, ID: fmt.Sprint(h.created), Hop: name, Job: h.job, Running: h.runs, Whole: h.whole,
		At: []int64{}, Busy: []float64{}, Rate: []float64{}}
	if h.names == nil { // no fabric was seen yet
		s.Job = noJob
	}
	hop := slices.Index(h.names, name)
	if name == "" && len(h.samples) > 1 {
		hop = h.busiest()
		s.Hop = h.names[hop]
	}
	if hop < 0 {
		return s, name == ""
	}
	for i := 1; i < len(h.samples); i++ {
		a, b := &h.samples[i-1], &h.samples[i]
		time := float64(b.now - a.now)
		s.At = append(s.At, b.now-h.samples[0].now)
		// The time for which a segment occupies a hop is counted when it is reserved, which may be before this sample.
		s.Busy = append(s.Busy, min(1, float64(b.busy[hop]-a.busy[hop])/time))
		s.Rate = append(s.Rate, 8e9*float64(b.bytes[hop]-a.bytes[hop])/time)
	}
	return s, true
}

// busiest is the hop that was busy for the longest time; of those that nearly were, the first one, so that it stays the
// same.
func (h *History) busiest() int {
	first, last := h.samples[0].busy, h.samples[len(h.samples)-1].busy
	longest := int64(0)
	for i := range last {
		longest = max(longest, last[i]-first[i])
	}
	for i := range last {
		if last[i]-first[i] >= longest-longest/100 {
			return i
		}
	}
	return 0
}
