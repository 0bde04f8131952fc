// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
)

// Sweep is a workload on fabrics that differ in one parameter of all links.
type Sweep struct {
	*sweep.Values
	// Results are the results of the first values. They are fewer if the sweep was interrupted.
	Results []*Result
}

// step is the mean time of a step at a value.
func (s *Sweep) step(i int) time.Duration { return s.Results[i].Mean().Time }

// Enough is the place of the slowest network from which on a step is at most 5 % longer than on the fastest one; -1 if
// the values have no order.
func (s *Sweep) Enough() int {
	order := s.Played(len(s.Results))
	if order == nil {
		return -1
	}
	var times []time.Duration
	for _, i := range order {
		times = append(times, s.step(i))
	}
	return order[sweep.Enough(times)]
}

// Conclusion says in a sentence where the network stops mattering, or, if the values have no order, which is the best.
func (s *Sweep) Conclusion() string {
	order := s.Played(len(s.Results))
	switch {
	case len(s.Results) == 1:
		return "one value was played: that does not say where the network stops mattering"
	case order == nil:
		return s.best()
	}
	enough, at := s.Enough(), func(i int) string { return s.Param + " " + s.List[i].Text }
	switch enough {
	case order[0]:
		return fmt.Sprintf(
			"the network does not matter at any of these: at %s, the slowest, a step is at most %.0f %% longer than "+
				"on the fastest, and %.1f %% of it is exposed. "+
				"It stops mattering there or on a slower one", at(enough), 100*sweep.Matters, s.exposed(enough))
	case order[len(order)-1]:
		return fmt.Sprintf(
			"the network matters up to %s, the fastest of this sweep, where %.1f %% of a step is exposed", at(enough),
			s.exposed(enough))
	}
	return fmt.Sprintf(
		"the network stops mattering at %s: faster ones make a step at most %.0f %% shorter; there %.1f %% of it is "+
			"exposed", at(enough), 100*sweep.Matters, s.exposed(enough))
}

// best names the values with the shortest and the longest step.
func (s *Sweep) best() string {
	short, long := 0, 0
	for i := range s.Results {
		if s.step(i) < s.step(short) {
			short = i
		}
		if s.step(i) > s.step(long) {
			long = i
		}
	}
	return fmt.Sprintf("a step is shortest at %s %s, %s ms, and longest at %s, %s ms", s.Param, s.List[short].Text,
		milliseconds(s.step(short)),
		s.List[long].Text, milliseconds(s.step(long)))
}

// exposed is the part of a step in percent that is exposed.
func (s *Sweep) exposed(i int) float64 {
	m := s.Results[i].Mean()
	return 100 * float64(m.Exposed) / float64(max(m.Time, 1))
}

// Changes says where NCCL's choice changes from one value to the next.
func (s *Sweep) Changes() []string {
	var calls [][]sweep.Call
	for _, r := range s.Results {
		calls = append(calls, r.sweepCalls())
	}
	return s.Values.Changes(calls)
}

// reversals says where a step takes longer on a faster network.
func (s *Sweep) reversals() []string {
	var times []time.Duration
	for i := range s.Results {
		times = append(times, s.step(i))
	}
	return s.Reversals("a step", times)
}

// sweepCalls are the calls by what they are. Those of communicators of different names are apart, if there are some.
func (r *Result) sweepCalls() (out []sweep.Call) {
	comms := map[string]bool{}
	for i := range r.Calls {
		comms[r.Calls[i].Comm] = true
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		what := fmt.Sprintf("%s of %d bytes", c.Func, c.Size)
		if len(comms) > 1 {
			what += fmt.Sprintf(" on %s of %d", c.Comm, c.Ranks)
		}
		out = append(out, sweep.Call{What: what, Choice: strings.TrimSpace(c.Algo + " " + c.Proto), Time: c.Mean})
	}
	return out
}

// left is how many values were left out.
func (s *Sweep) left() int { return len(s.List) - len(s.Results) }

// Word is VALID if all results are, and none was left out; "" for a forecast.
func (s *Sweep) Word() string {
	for _, r := range s.Results {
		if v := &r.Verdict; !v.Valid && !r.Forecast {
			return v.Word
		}
	}
	switch {
	case s.left() > 0:
		return verdict.Incomplete
	case s.Results[0].Forecast:
		return ""
	}
	return "VALID"
}

// WriteText writes a table over the values.
func (s *Sweep) WriteText(w io.Writer) error {
	first := s.Results[0]
	t := &text{Result: first}
	head := &first.Facts.Workload.Workload.Head
	t.line("# ddlemu %s %s over %s: NCCL %s, CUDA %s", first.command(), cmp.Or(head.Name, "workload"), s.Param,
		first.Facts.NCCL, first.Facts.CUDA)
	t.line("# profile %s  ranks %d  nodes %d  steps %d; times are means over the steps", first.Facts.Fabric.Config.Name,
		head.Ranks, first.nodes(), len(first.Steps))
	t.inForce(first.InForce.Over(s.Param, s.Values.String()))
	t.sourceNotes()
	t.line("#")
	t.line("# %10s  %10s  %10s  %10s  %10s  %10s  %8s  %s", s.Param, "step", "compute", "exposed", "hidden", "exposed",
		"speedup", t.unlessForecast("verdict"))
	t.line("# %10s  %10s  %10s  %10s  %10s  %10s  %8s", "", "(ms)", "(ms)", "(ms)", "(ms)", "(%)", "")
	base := s.step(0)
	for i, r := range s.Results {
		m := r.Mean()
		t.line("%12s  %10s  %10s  %10s  %10s  %10.1f  %8.2f  %s", s.List[i].Text, milliseconds(m.Time),
			milliseconds(m.Compute), milliseconds(m.Exposed), milliseconds(m.Hidden),
			s.exposed(i), float64(base)/float64(max(m.Time, 1)), t.unlessForecast(r.Verdict.Word))
	}
	t.line("#")
	lines.Print(&t.b, "# %s\n", sweep.ChangeLines(s.Changes()))
	lines.Print(&t.b, "# %s\n", s.reversals())
	t.line("# %s", s.Conclusion())
	if s.left() > 0 {
		t.line("# interrupted: %d of %d values played", len(s.Results), len(s.List))
	}
	lines.Print(&t.b, "# %s\n", printer.NotInText(first.NotIn))
	if word := s.Word(); word != "" {
		t.line("verdict: %s", word)
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// unlessForecast is text, or "" for a forecast, which has no verdict.
func (t *text) unlessForecast(text string) string {
	if t.Forecast {
		return ""
	}
	return text
}

// SweepReport is a [Sweep] as JSON.
type SweepReport struct {
	Param  string                 `json:"param"`
	Points []sweep.Point[*Report] `json:"points"`
	// a slower one may be too, if this is the slowest of the sweep; "" if the values have no order
	Enough     string   `json:"enough"`
	Conclusion string   `json:"conclusion"`
	Changes    []string `json:"changes,omitempty"` // of NCCL's choices from one value to the next
	Reversals  []string `json:"reversals,omitempty"`
	Verdict    string   `json:"verdict"` // "" for a forecast
}

// Report returns the sweep for JSON.
func (s *Sweep) Report() *SweepReport {
	out := &SweepReport{Param: s.Param, Conclusion: s.Conclusion(), Changes: s.Changes(), Reversals: s.reversals(),
		Points:  sweep.Points(s.Values, len(s.Results), func(i int) *Report { return s.Results[i].Report() }),
		Verdict: s.Word()}
	if enough := s.Enough(); enough >= 0 {
		out.Enough = s.List[enough].Text
	}
	return out
}
