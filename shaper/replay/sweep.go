// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/verdict"
)

// Sweep is a workload on fabrics that differ in one parameter of all links.
type Sweep struct {
	Param  string // the flag, such as bw
	Points []Point
	// Left is how many points were left out, because the sweep was interrupted.
	Left int
}

// Point is the workload at one value of the parameter.
type Point struct {
	Text   string  // the value as a person writes it
	Value  float64 // bits per second, or seconds
	Result *Result
}

// matters is the part of a step below which a difference does not matter.
const matters = 0.05

// The parameters of a sweep, by their flags.
const (
	Bandwidth = "bw"
	Latency   = "lat"
)

// usual are the values that a range stands for: the rates of NICs in bits per second, and latencies in seconds.
var usual = map[string][]string{
	Bandwidth: {
		"1Gbps", "10Gbps", "25Gbps", "40Gbps", "50Gbps", "100Gbps", "200Gbps", "400Gbps", "800Gbps", "1600Gbps",
	},
	Latency: {"1us", "3us", "10us", "30us", "100us", "300us", "1ms", "3ms", "10ms", "30ms", "100ms"},
}

// maxPoints is the maximum number of values of a sweep.
const maxPoints = 100

// ParseSweep reads bw=10G..800G, lat=1us..1ms, or a list such as bw=10G,25G. A range is its ends, and the usual values
// between them.
func ParseSweep(text string) (*Sweep, error) {
	param, values, ok := strings.Cut(text, "=")
	if _, known := usual[param]; !known || !ok {
		return nil, fmt.Errorf("must be bw= or lat= and values, such as bw=10G..800G or lat=1us,10us")
	}
	if values == "" {
		return nil, errors.New("no value: give some, such as bw=10G..800G or lat=1us,10us")
	}
	list := strings.Split(values, ",")
	if from, to, ranged := strings.Cut(values, ".."); ranged {
		var err error
		if list, err = between(param, from, to); err != nil {
			return nil, err
		}
	}
	if len(list) < 2 || len(list) > maxPoints {
		return nil, fmt.Errorf("%s: must be 2 to %d", units.Count(len(list), "value"), maxPoints)
	}
	s := &Sweep{Param: param}
	for _, text := range list {
		value, text, err := valueOf(param, text)
		if err != nil {
			return nil, err
		}
		s.Points = append(s.Points, Point{Text: text, Value: value})
	}
	return s, nil
}

// between are the ends of a range and the usual values between them.
func between(param, from, to string) ([]string, error) {
	first, _, err := valueOf(param, from)
	if err != nil {
		return nil, err
	}
	last, _, err := valueOf(param, to)
	if err != nil {
		return nil, err
	}
	if last <= first {
		return nil, fmt.Errorf("%s..%s ends before it begins", from, to)
	}
	list := []string{from}
	for _, text := range usual[param] {
		if v, _, err := valueOf(param, text); err == nil && v > first && v < last {
			list = append(list, text)
		}
	}
	return append(list, to), nil
}

// valueOf is a value as a number, and as a text with its unit.
func valueOf(param, text string) (value float64, written string, err error) {
	if param == Latency {
		d, err := time.ParseDuration(text)
		if err == nil && d <= 0 {
			err = fmt.Errorf("latency %s: must be above 0", text)
		}
		return d.Seconds(), text, err
	}
	b, err := units.ParseBandwidth(text)
	if err == nil && b <= 0 {
		err = fmt.Errorf("bandwidth %s: must be above 0 and not unlimited", text)
	}
	return float64(b), b.String(), err
}

// slowFirst are the points from the slowest network to the fastest.
func (s *Sweep) slowFirst() []*Point {
	var out []*Point
	for i := range s.Points {
		out = append(out, &s.Points[i])
	}
	slices.SortStableFunc(out, func(a, b *Point) int { return cmp.Compare(a.Value, b.Value) })
	if s.Param == Latency {
		slices.Reverse(out)
	}
	return out
}

// Enough is the slowest network from which on a step is at most 5 % longer than on the fastest one.
func (s *Sweep) Enough() *Point {
	points := s.slowFirst()
	limit := (1 + matters) * float64(points[len(points)-1].step())
	enough := len(points) - 1
	for enough > 0 && float64(points[enough-1].step()) <= limit {
		enough--
	}
	return points[enough]
}

// step is the mean time of a step.
func (p *Point) step() time.Duration { return Mean(p.Result.Steps).Time }

// Conclusion says in a sentence where the network stops mattering.
func (s *Sweep) Conclusion() string {
	points := s.slowFirst()
	if len(points) == 1 {
		return "one value was played: that does not say where the network stops mattering"
	}
	enough, fastest := s.Enough(), points[len(points)-1]
	switch enough {
	case points[0]:
		return fmt.Sprintf("the network does not matter at any of these: at %s %s, the slowest, a step is at most %.0f %% longer than on the fastest, and %.1f %% of it is exposed. "+
			"It stops mattering there or on a slower one", s.Param, enough.Text, 100*matters, enough.exposed())
	case fastest:
		return fmt.Sprintf("the network matters up to %s %s, the fastest of this sweep, where %.1f %% of a step is exposed", s.Param, fastest.Text, enough.exposed())
	}
	return fmt.Sprintf("the network stops mattering at %s %s: faster ones make a step at most %.0f %% shorter; there %.1f %% of it is exposed", s.Param, enough.Text, 100*matters, enough.exposed())
}

// exposed is the part of a step in percent that is exposed.
func (p *Point) exposed() float64 {
	m := Mean(p.Result.Steps)
	return 100 * float64(m.Exposed) / float64(max(m.Time, 1))
}

// mostChanges is how many changes of NCCL's choice the text of a sweep names.
const mostChanges = 8

// Changes says where NCCL chooses another algorithm or protocol for a call at one value than at the value before it. There a
// faster network can be the slower one.
func (s *Sweep) Changes() []string {
	var out []string
	for i := 1; i < len(s.Points); i++ {
		from, to := &s.Points[i-1], &s.Points[i]
		for _, p := range (&Comparison{from.Result, to.Result}).Calls() {
			before, after := p.Original, p.Emulated
			if before.Algo == "" || after.Algo == "" || before.Algo == after.Algo && before.Proto == after.Proto {
				continue
			}
			out = append(out, fmt.Sprintf("%s of %d bytes: %s %s at %s %s, %s %s at %s (%s us, %s us)", before.Func, before.Size,
				before.Algo, before.Proto, s.Param, from.Text, after.Algo, after.Proto, to.Text, microseconds(before.Mean), microseconds(after.Mean)))
		}
	}
	return out
}

// writeChanges writes Changes, or the first of them.
func (t *text) writeChanges(all []string) {
	for _, change := range all[:min(len(all), mostChanges)] {
		t.line("# NCCL's choice changes: %s", change)
	}
	if len(all) > mostChanges {
		t.line("# NCCL's choice changes %d more times: see --json", len(all)-mostChanges)
	}
}

// Word is VALID if all points are, and none was left out.
func (s *Sweep) Word() string {
	for i := range s.Points {
		if v := &s.Points[i].Result.Verdict; !v.Valid {
			return v.Word
		}
	}
	if s.Left > 0 {
		return verdict.Incomplete
	}
	return "VALID"
}

// WriteText writes a table over the points.
func (s *Sweep) WriteText(w io.Writer) error {
	first := s.Points[0].Result
	t := &text{Result: first}
	head := &first.Facts.Workload.Workload.Head
	t.line("# ddlemu replay %s over %s: NCCL %s, CUDA %s", cmp.Or(head.Name, "workload"), s.Param, first.Facts.NCCL, first.Facts.CUDA)
	t.line("# profile %s  ranks %d  nodes %d  steps %d; times are means over the steps", first.Facts.Fabric.Config.Name, head.Ranks, first.nodes(), len(first.Steps))
	t.sourceNotes()
	t.line("#")
	t.line("# %10s  %10s  %10s  %10s  %10s  %10s  %8s  %s", s.Param, "step", "compute", "exposed", "hidden", "exposed", "speedup", "verdict")
	t.line("# %10s  %10s  %10s  %10s  %10s  %10s  %8s", "", "(ms)", "(ms)", "(ms)", "(ms)", "(%)", "")
	base := Mean(first.Steps).Time
	for i := range s.Points {
		m := Mean(s.Points[i].Result.Steps)
		t.line("%12s  %10s  %10s  %10s  %10s  %10.1f  %8.2f  %s", s.Points[i].Text, milliseconds(m.Time), milliseconds(m.Compute), milliseconds(m.Exposed), milliseconds(m.Hidden),
			s.Points[i].exposed(), float64(base)/float64(max(m.Time, 1)), s.Points[i].Result.Verdict.Word)
	}
	t.line("#")
	t.writeChanges(s.Changes())
	t.line("# %s", s.Conclusion())
	if s.Left > 0 {
		t.line("# interrupted: %d of %d values played", len(s.Points), len(s.Points)+s.Left)
	}
	t.line("verdict: %s", s.Word())
	_, err := io.WriteString(w, t.b.String())
	return err
}

// SweepReport is a [Sweep] as JSON.
type SweepReport struct {
	Param      string        `json:"param"`
	Points     []PointReport `json:"points"`
	Enough     string        `json:"enough"` // a slower one may be too, if this is the slowest of the sweep
	Conclusion string        `json:"conclusion"`
	Changes    []string      `json:"changes,omitempty"` // of NCCL's choices from one value to the next
	Verdict    string        `json:"verdict"`
}

// PointReport is a [Point].
type PointReport struct {
	Value  string  `json:"value"`
	Result *Report `json:"result"`
}

// Report returns the sweep for JSON.
func (s *Sweep) Report() *SweepReport {
	out := &SweepReport{Param: s.Param, Enough: s.Enough().Text, Conclusion: s.Conclusion(), Changes: s.Changes(), Verdict: s.Word()}
	for i := range s.Points {
		out.Points = append(out.Points, PointReport{s.Points[i].Text, s.Points[i].Result.Report()})
	}
	return out
}
