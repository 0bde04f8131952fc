// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/sweep"
)

// Sweep is the expected times of a collective on fabrics that differ in one parameter of all links.
type Sweep struct {
	*sweep.Values
	Collective string
	// Reports are the reports of the first values. They are fewer if the sweep was interrupted.
	Reports []*Report
}

// sizes are the sizes of the rows that have a time at each value.
func (s *Sweep) sizes() (rows []int) {
	for row := range s.Reports[0].Rows {
		if !slices.ContainsFunc(s.Reports,
			func(r *Report) bool { return row >= len(r.Rows) || r.Rows[row].ExpectedUS == nil }) {
			rows = append(rows, row)
		}
	}
	return rows
}

// times are the times of a row by value.
func (s *Sweep) times(row int) (times []time.Duration) {
	for _, r := range s.Reports {
		times = append(times, time.Duration(*r.Rows[row].ExpectedUS*1e3+0.5))
	}
	return times
}

// Changes says where NCCL's choice changes from one value to the next.
func (s *Sweep) Changes() []string {
	var calls [][]sweep.Call
	for _, r := range s.Reports {
		var at []sweep.Call
		for i := range r.Rows {
			row := &r.Rows[i]
			c := sweep.Call{What: fmt.Sprintf("%s of %d bytes", s.Collective, row.Size),
				Choice: strings.TrimSpace(row.Algo + " " + row.Proto)}
			if row.ExpectedUS != nil {
				c.Time = time.Duration(*row.ExpectedUS*1e3 + 0.5)
			}
			at = append(at, c)
		}
		calls = append(calls, at)
	}
	return s.Values.Changes(calls)
}

// Conclusions say for each size where the network stops mattering: sizes that follow each other and have the same
// answer are one sentence. There are none if the values have no order.
func (s *Sweep) Conclusions() (out []string) {
	order := s.Played(len(s.Reports))
	if len(order) < 2 {
		return nil
	}
	type answer struct {
		first, last int64
		enough      int // place in order
	}
	var answers []answer
	for _, row := range s.sizes() {
		all := s.times(row)
		var times []time.Duration
		for _, i := range order {
			times = append(times, all[i])
		}
		size, enough := s.Reports[0].Rows[row].Size, sweep.Enough(times)
		if n := len(answers); n > 0 && answers[n-1].enough == enough {
			answers[n-1].last = size
		} else {
			answers = append(answers, answer{size, size, enough})
		}
	}
	for _, a := range answers {
		sizes := units.Count(int(a.first), "byte")
		if a.last > a.first {
			sizes = fmt.Sprintf("%d to %d bytes", a.first, a.last)
		}
		at := fmt.Sprintf("%s %s", s.Param, s.List[order[a.enough]].Text)
		switch a.enough {
		case 0:
			out = append(out,
				fmt.Sprintf(
					"%s: the network does not matter at any of these: at %s, the slowest, a call takes at most %.0f "+
						"%% longer than on the fastest", sizes, at, 100*sweep.Matters))
		case len(order) - 1:
			out = append(out, fmt.Sprintf("%s: the network matters up to %s, the fastest of this sweep", sizes, at))
		default:
			out = append(out,
				fmt.Sprintf("%s: the network stops mattering at %s: faster ones make a call at most %.0f %% shorter",
					sizes, at, 100*sweep.Matters))
		}
	}
	return out
}

// Reversals says where a call takes longer on a faster network.
func (s *Sweep) Reversals() (out []string) {
	for _, row := range s.sizes() {
		out = append(out, s.Values.Reversals(fmt.Sprintf("%s of %d bytes", s.Collective, s.Reports[0].Rows[row].Size),
			s.times(row))...)
	}
	return out
}

// SweepReport is a [Sweep] as JSON.
type SweepReport struct {
	Param       string                 `json:"param"`
	Points      []sweep.Point[*Report] `json:"points"`
	Conclusions []string               `json:"conclusions,omitempty"`
	Changes     []string               `json:"changes,omitempty"` // of NCCL's choices from one value to the next
	Reversals   []string               `json:"reversals,omitempty"`
	Verdict     string                 `json:"verdict,omitempty"` // incomplete if it was interrupted
}

// Report returns the sweep for JSON.
func (s *Sweep) Report() *SweepReport {
	out := &SweepReport{Param: s.Param, Conclusions: s.Conclusions(), Changes: s.Changes(), Reversals: s.Reversals(),
		Points: sweep.Points(s.Values, len(s.Reports), func(i int) *Report { return s.Reports[i] })}
	if len(s.Reports) < len(s.List) {
		out.Verdict = verdict.Incomplete
	}
	return out
}
