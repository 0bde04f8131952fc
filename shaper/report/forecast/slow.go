// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// SlowRange are sizes side by side of a log that take longer than expected.
type SlowRange struct {
	From  int64         `json:"from"` // bytes
	To    int64         `json:"to"`
	Word  testslog.Word `json:"judgement"` // slower, stall or dip
	Least float64       `json:"least"`     // measured over expected time
	Most  float64       `json:"most"`
	// BeyondMS is by how many milliseconds stalls exceed the expected times: the least and the most.
	BeyondMS [2]float64 `json:"beyond_ms,omitzero"`
	// Causes are the likely ones, the one that explains the times best first.
	Causes []Cause `json:"causes,omitempty"`
}

// Cause is a likely cause of slower times.
type Cause struct {
	Text string `json:"text"`
	// Explains is which share of what the times exceed the expected ones by, as factors, the cause explains.
	Explains float64 `json:"explains"`

	favour float64 // in the order of the causes
}

// judgeByIntervals judges times by how far healthy clusters are from the model.
func (r *Report) judgeByIntervals(times []loggedTime) {
	for _, indices := range bySeries(times, (*loggedTime).modelled) {
		for k, word := range testslog.JudgePoints(samplesOf(times, indices)) {
			t := &times[indices[k]]
			t.found = testslog.Finding{Word: word}
			given := givenOf(t.forecast, 0, 0)
			switch word {
			case testslog.Slower:
				t.found.Cause = given.SlowerThan(t.half.Time)
			case testslog.Dip:
				t.found.Cause = "only this size: measure it again, with more iterations"
			case testslog.Stall:
				t.found.Cause = stallText(t.half.Time - t.forecast.Time)
			case testslog.Faster:
				t.found = given.FasterThan()
			}
		}
	}
}

// intervalOf is how far a time may be from the expected one: by the tables of its class, or by testslog.SlowOff if
// there are none.
func intervalOf(f *emulate.Forecast) intervals.Interval {
	if f.Interval.Known() {
		return f.Interval
	}
	const off = 1 + testslog.SlowOff
	return intervals.Interval{Low: 1 / off, High: off, Alone: off, Step: testslog.StepAlone}
}

// expectedTime is the time that a measured one is compared with: the mean over the ranks, and without the time of nodes
// the time of the last rank, because the log does not tell how far ranks ran ahead.
func expectedTime(f *emulate.Forecast) time.Duration {
	if f.NodeTime != "" {
		return f.Time
	}
	return max(f.Time, f.LastRank)
}

// nameStalls finds the stalls among slower times and dips of a log without the time of nodes.
func nameStalls(times []loggedTime) {
	timed := func(t *loggedTime) bool {
		return t.forecast != nil && t.forecast.Known &&
			(t.found.Word.Good() || t.found.Word == testslog.Slower || t.found.Word == testslog.Dip)
	}
	for _, indices := range bySeries(times, timed) {
		for k, word := range testslog.JudgePoints(samplesOf(times, indices)) {
			if t := &times[indices[k]]; word == testslog.Stall {
				t.found = testslog.Finding{Word: word, Cause: stallText(t.half.Time - t.forecast.Time)}
			}
		}
	}
}

// stallText is the cause of a stall.
func stallText(beyond time.Duration) string {
	return fmt.Sprintf("%.1f ms more in each call, which no link takes: a retransmission's timeout, a registration of "+
		"memory, or the host's scheduler", beyond.Seconds()*1e3)
}

// findSlow finds the ranges of sizes that are slower than expected, the worst first.
func (r *Report) findSlow(times []loggedTime) {
	bySize := map[nccl.RedOp]map[int64]*SlowRange{} // nil: not slow
	for i := range times {
		t := &times[i]
		if t.forecast == nil || !t.forecast.Known {
			continue
		}
		sizes := bySize[t.call.op]
		if sizes == nil {
			sizes = map[int64]*SlowRange{}
			bySize[t.call.op] = sizes
		}
		if before, one := sizes[t.call.size], t.slow(r.NodeTime != ""); before != nil && one != nil {
			before.join(one)
		} else {
			sizes[t.call.size] = cmp.Or(before, one)
		}
	}
	var all []*SlowRange
	for _, op := range slices.Sorted(maps.Keys(bySize)) {
		var last *SlowRange // of the size before
		for _, size := range slices.Sorted(maps.Keys(bySize[op])) {
			s := bySize[op][size]
			if s != nil && last != nil && (s.Word == testslog.Stall) == (last.Word == testslog.Stall) {
				last.join(s)
				continue
			}
			if last = s; s != nil {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *SlowRange) int { return cmp.Compare(b.Most, a.Most) })
	for _, s := range all {
		if s.Word != testslog.Stall {
			s.BeyondMS = [2]float64{}
		}
		r.Slow = append(r.Slow, *s)
	}
}

// slow is the range of one time that is slower than expected; nil if it is not. Without the time of nodes, a dip is
// named by its neighbours, and not by the model.
func (t *loggedTime) slow(nodeTime bool) *SlowRange {
	word, want := t.found.Word, expectedTime(t.forecast)
	if word != testslog.Slower && word != testslog.Stall && (word != testslog.Dip || !nodeTime) {
		return nil
	}
	factor, ms := float64(t.half.Time)/float64(max(want, 1)), (t.half.Time-want).Seconds()*1e3
	return &SlowRange{From: t.call.size, To: t.call.size, Word: word, Least: factor, Most: factor,
		BeyondMS: [2]float64{ms, ms}}
}

// join adds a range to s. What is a dip in one half and slower in another is slower.
func (s *SlowRange) join(o *SlowRange) {
	if o.From != s.From || o.To != s.To || o.Word == testslog.Stall {
		if s.Word = o.Word; s.Word == testslog.Dip {
			s.Word = testslog.Slower
		}
	}
	if s.Word == testslog.Dip && o.Word == testslog.Slower {
		s.Word = testslog.Slower
	}
	s.From, s.To = min(s.From, o.From), max(s.To, o.To)
	s.Least, s.Most = min(s.Least, o.Least), max(s.Most, o.Most)
	s.BeyondMS = [2]float64{min(s.BeyondMS[0], o.BeyondMS[0]), max(s.BeyondMS[1], o.BeyondMS[1])}
}

// nameSlow adds the slow ranges to the summary, the worst first.
func (r *Report) nameSlow() {
	var lines []string
	for i := range r.Slow {
		lines = append(lines, r.Slow[i].Text())
	}
	r.Summary = slices.Concat(lines, r.Summary)
}

// has says whether the range has this size.
func (s *SlowRange) has(size int64) bool { return size >= s.From && size <= s.To }

// Text says which sizes take how much longer than expected, and why that may be.
func (s *SlowRange) Text() string {
	sizes := units.Size(s.From).String()
	if s.To > s.From {
		sizes += " to " + units.Size(s.To).String()
	}
	text := fmt.Sprintf("%s: %s, %s times as long as expected", s.Word, sizes, span(s.Least, s.Most))
	if s.Word == testslog.Stall {
		text = fmt.Sprintf("%s: %s, %s ms more than expected", s.Word, sizes, span(s.BeyondMS[0], s.BeyondMS[1]))
	}
	var causes []string
	for i, c := range s.Causes {
		causes = append(causes, fmt.Sprintf("%d. %s", i+1, c.Text))
	}
	switch {
	case causes == nil && s.Word == testslog.Slower:
		return text + "; an algorithm or a protocol that NCCL chose for these sizes, one NIC or the rate of a NIC: NCCL_DEBUG=INFO " +
			"with NCCL_DEBUG_SUBSYS=TUNING,NET says which it took"
	case causes == nil:
		return text
	}
	return text + "; likely: " + strings.Join(causes, "; ")
}

// span is a range of numbers with two digits, one number if both are the same.
func span(least, most float64) string {
	a, b := twoDigits(least), twoDigits(most)
	if a == b {
		return a
	}
	return a + " to " + b
}

// twoDigits is a number with two digits, of which none is zero without a reason: 430, 73, 5.6.
func twoDigits(v float64) string {
	if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return "0"
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	return fmt.Sprintf("%.*f", max(0, int(-math.Round(math.Log10(unit)))), math.Round(v/unit)*unit)
}
