// SPDX-License-Identifier: Apache-2.0

package sweep

import (
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// matters is the part of a time below which a difference does not matter.
const matters = 0.05

// Sweep is what was calculated or played on fabrics that differ in one parameter of all links.
type Sweep[R any] struct {
	*Values
	Results []R     // of the first values: fewer if the sweep was interrupted
	Points  []Point // the same results for JSON and for conclusions
}

// Point is the result at a value.
type Point struct {
	Value  string `json:"value"`
	Result any    `json:"result"` // as JSON
	Calls  []Call `json:"-"`      // of NCCL
	Timed  []Call `json:"-"`      // by whose times the network matters: Calls, or the step of a job
	Word   string `json:"-"`      // of the verdict, "" if the times are calculated
}

// Call is a call of NCCL, or a step of a job: its name, NCCL's choice (algorithm and protocol, "" if not known), and
// its time. Calls are equal if What is.
type Call struct {
	What, Choice string
	Size         int64 // in bytes
	Time         time.Duration
	Unknown      bool     // it has no time
	Exposed      *float64 // percent of a step; nil of a call
}

// New is the sweep of the results of the first values. point is what a result says to a sweep, without the value.
func New[R any](v *Values, results []R, point func(R) Point) *Sweep[R] {
	s := &Sweep[R]{Values: v, Results: results}
	for i, r := range results {
		p := point(r)
		p.Value = v.List[i].Text
		s.Points = append(s.Points, p)
	}
	return s
}

// Report is a [Sweep] as JSON.
type Report struct {
	Param  string  `json:"param"`
	Points []Point `json:"points"`
	// Enough is the slowest value from which on a step is at most 5 % longer than on the fastest one, "" if the values
	// have no order. A slower value may do too, if this is the slowest of the sweep.
	Enough      *string  `json:"enough,omitempty"`
	Conclusion  *string  `json:"conclusion,omitempty"` // about a step
	Conclusions []string `json:"conclusions,omitempty"`
	Changes     []string `json:"changes,omitempty"` // of NCCL's choices from one value to the next
	Reversals   []string `json:"reversals,omitempty"`
	Verdict     *string  `json:"verdict,omitempty"` // of calculated times of calls only if it is incomplete
}

// Report returns the sweep for JSON.
func (s *Sweep[R]) Report() *Report {
	out := &Report{Param: s.Param, Points: s.Points, Changes: s.Changes(), Reversals: s.Reversals()}
	if word := s.Word(); word != "" || s.ofSteps() {
		out.Verdict = &word
	}
	if !s.ofSteps() {
		out.Conclusions = s.Conclusions()
		return out
	}
	out.Enough, out.Conclusion = new(""), new(s.Conclusions()[0])
	if order := s.order(); order != nil {
		*out.Enough = s.List[order[enough(s.times(0, order))]].Text
	}
	return out
}

// ofSteps says whether the steps of a job are compared.
func (s *Sweep[R]) ofSteps() bool {
	return len(s.Points[0].Timed) > 0 && s.Points[0].Timed[0].Exposed != nil
}

// Word is VALID if all results are, and none was left out; "" if they are calculated and none was left out.
func (s *Sweep[R]) Word() (word string) {
	for _, p := range s.Points {
		if word = p.Word; word != "" && word != "VALID" {
			return word
		}
	}
	if len(s.Points) < len(s.List) {
		return verdict.Incomplete
	}
	return word
}

// order are the places of the values that have results, from the slowest network to the fastest; nil if they have no
// order.
func (s *Sweep[R]) order() []int {
	return slices.DeleteFunc(s.SlowFirst(), func(i int) bool { return i >= len(s.Points) })
}

// rows are the places of the timed calls that have a time at each value.
func (s *Sweep[R]) rows() (rows []int) {
	for row := range s.Points[0].Timed {
		if !slices.ContainsFunc(s.Points, func(p Point) bool { return row >= len(p.Timed) || p.Timed[row].Unknown }) {
			rows = append(rows, row)
		}
	}
	return rows
}

// times are the times of a row at the values of these places, nil: at all.
func (s *Sweep[R]) times(row int, places []int) (times []time.Duration) {
	if places == nil {
		for _, p := range s.Points {
			times = append(times, p.Timed[row].Time)
		}
	}
	for _, i := range places {
		times = append(times, s.Points[i].Timed[row].Time)
	}
	return times
}

// enough is the place in times, which are from the slowest network to the fastest, from which on none is more than 5 %
// longer than the last.
func enough(times []time.Duration) int {
	limit := (1 + matters) * float64(times[len(times)-1])
	at := len(times) - 1
	for at > 0 && float64(times[at-1]) <= limit {
		at--
	}
	return at
}

// Conclusions say where the network stops mattering: to a step, or to a call of each size. Sizes that follow each other
// and have the same answer are one sentence. Values without an order have a conclusion for a step only.
func (s *Sweep[R]) Conclusions() (out []string) {
	order, rows := s.order(), s.rows()
	switch {
	case s.ofSteps() && len(s.Points) == 1:
		return []string{"one value was played: that does not say where the network stops mattering"}
	case s.ofSteps() && order == nil:
		return []string{s.best()}
	case len(order) < 2:
		return nil
	}
	for i := 0; i < len(rows); {
		from, at := rows[i], enough(s.times(rows[i], order))
		to := from
		for i++; i < len(rows) && enough(s.times(rows[i], order)) == at; i++ {
			to = rows[i]
		}
		out = append(out, s.conclusion(from, to, order, at))
	}
	return out
}

// conclusion is the sentence about rows for which the network is fast enough from a place in order on.
func (s *Sweep[R]) conclusion(from, to int, order []int, at int) string {
	first, last, call := s.Points[0].Timed[from].Size, s.Points[0].Timed[to].Size, s.Points[order[at]].Timed[from]
	value, of := s.Param+" "+s.List[order[at]].Text, units.Count(int(first), "byte")+": "
	if last > first {
		of = fmt.Sprintf("%d to %d bytes: ", first, last)
	}
	what, takes, exposed := "a call", "takes", func(string) string { return "" }
	if call.Exposed != nil {
		of, what, takes = "", "a step", "is"
		exposed = func(format string) string { return fmt.Sprintf(format, *call.Exposed) }
	}
	switch at {
	case 0:
		return fmt.Sprintf("%sthe network does not matter at any of these: at %s, the slowest, %s %s at most %.0f %% "+
			"longer than on the fastest", of, value, what, takes, 100*matters) +
			exposed(", and %.1f %% of it is exposed. It stops mattering there or on a slower one")
	case len(order) - 1:
		return fmt.Sprintf("%sthe network matters up to %s, the fastest of this sweep", of, value) +
			exposed(", where %.1f %% of a step is exposed")
	}
	return fmt.Sprintf("%sthe network stops mattering at %s: faster ones make %s at most %.0f %% shorter", of, value,
		what, 100*matters) + exposed("; there %.1f %% of it is exposed")
}

// best names the values with the shortest and the longest step.
func (s *Sweep[R]) best() string {
	times := s.times(0, nil)
	short, long := slices.Index(times, slices.Min(times)), slices.Index(times, slices.Max(times))
	return fmt.Sprintf("a step is shortest at %s %s, %.3f ms, and longest at %s, %.3f ms", s.Param, s.List[short].Text,
		units.Microseconds(times[short])/1e3, s.List[long].Text, units.Microseconds(times[long])/1e3)
}

// Changes says where NCCL chooses another algorithm or protocol for a call at one value than at the value before it.
// There a faster network can be the slower one.
func (s *Sweep[R]) Changes() (out []string) {
	for i := 1; i < len(s.Points); i++ {
		calls := s.Points[i].Calls
		for _, before := range s.Points[i-1].Calls {
			at := slices.IndexFunc(calls, func(c Call) bool { return c.What == before.What })
			if at < 0 || before.Choice == "" || calls[at].Choice == "" || calls[at].Choice == before.Choice {
				continue
			}
			after := calls[at]
			text := fmt.Sprintf("%s: %s at %s %s, %s at %s (%.2f us, %.2f us)", before.What, before.Choice, s.Param,
				s.List[i-1].Text, after.Choice, s.List[i].Text, units.Microseconds(before.Time),
				units.Microseconds(after.Time))
			if s.reversed(i, before.Time, after.Time) {
				text += ": the faster network takes longer"
			}
			out = append(out, text)
		}
	}
	return out
}

// mostChanges is how many changes a text names.
const mostChanges = 8

// Lines are all sentences about the sweep. Of the changes of choices they have the first ones, and how many more there
// are.
func (s *Sweep[R]) Lines() (lines []string) {
	changes := s.Changes()
	for _, c := range changes[:min(len(changes), mostChanges)] {
		lines = append(lines, "NCCL's choice changes: "+c)
	}
	if more := len(changes) - mostChanges; more > 0 {
		lines = append(lines, fmt.Sprintf("NCCL's choice changes %s: see --json", units.Count(more, "more time")))
	}
	return slices.Concat(lines, s.Reversals(), s.Conclusions())
}

// reversed says whether the time at a value and at the one before it are the wrong way round: the time of the faster
// network is more than 5 % longer.
func (v *Values) reversed(i int, before, at time.Duration) bool {
	p, ok := ordered[v.Param]
	a, b := v.List[i-1].Number, v.List[i].Number
	if !ok || a == b {
		return false
	}
	if p.slowFirst == (a < b) { // the value before is the slower network
		before, at = at, before
	}
	return float64(before) > (1+matters)*float64(at)
}

// Reversals are sentences about values at which a step or a call takes more than 5 % longer than on the slower network
// beside them in the list, and then about the value at which it is shortest.
func (s *Sweep[R]) Reversals() (out []string) {
	for _, row := range s.rows() {
		what, times, some := s.Points[0].Timed[row].What, s.times(row, nil), false
		for i := 1; i < len(times); i++ {
			if !s.reversed(i, times[i-1], times[i]) {
				continue
			}
			long, short := i-1, i
			if times[i] > times[i-1] {
				long, short = i, i-1
			}
			some = true
			out = append(out, fmt.Sprintf("%s takes longer at %s %s than at %s, which is slower: %.2f us, %.2f us", what,
				s.Param, s.List[long].Text, s.List[short].Text, units.Microseconds(times[long]),
				units.Microseconds(times[short])))
		}
		if best := slices.Index(times, slices.Min(times)); some {
			out = append(out, fmt.Sprintf("%s is shortest at %s %s: %.2f us", what, s.Param, s.List[best].Text,
				units.Microseconds(times[best])))
		}
	}
	return out
}
