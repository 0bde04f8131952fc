// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/compare"
)

// Default tolerances in percent. Times of a virtual clock and calculated times are exact. On a real clock a row may
// take 5 % longer than expected and the run is still VALID.
const (
	ExactTolerance = 1.0
	RealTolerance  = 5.0
)

// Comparison is how a run differs from its baseline. The names are as in JSON.
type Comparison struct {
	Baseline  string   `json:"baseline"` // as the user named it
	Tolerance float64  `json:"tolerance_percent"`
	Compared  int      `json:"compared"` // times
	Slower    []Change `json:"slower"`   // by more than the tolerance
	Faster    []Change `json:"faster"`
	Notes     []string `json:"notes,omitempty"` // what was not compared, and other software

	times []Time // of the run
}

// Change is a time that differs by more than the tolerance.
type Change struct {
	What     string  `json:"what"`
	US       float64 `json:"time_us"`
	BeforeUS float64 `json:"baseline_us"`
	// Percent is by how much the time is longer than before; null if it was 0.
	Percent *float64 `json:"percent"`
	// Choice and Before are NCCL's choices if they differ, else "".
	Choice string `json:"choice,omitempty"`
	Before string `json:"baseline_choice,omitempty"`
}

// Usable returns an error if the times of a run are no baseline for a command.
func (r *Run) Usable(command string) error {
	switch {
	case r.Command != command:
		return fmt.Errorf("it is the output of ddlemu %s, not of ddlemu %s", r.Command, command)
	case r.Verdict != "" && r.Verdict != "VALID":
		return fmt.Errorf("its verdict is %s, so its times say nothing: make it again", r.Verdict)
	case len(r.Times) == 0:
		return fmt.Errorf("it has no times")
	}
	return nil
}

// Check returns an error that names all settings that r has otherwise than now. Settings that now does not list are not
// compared.
func (r *Run) Check(now []Setting) error {
	before := map[string]string{}
	for _, s := range r.Settings {
		before[s.Name] = s.Value
	}
	var other []string
	changed := false
	for _, s := range now {
		if s.Name == Fabric || s.Name == Profile {
			changed = changed || before[s.Name] != s.Value
		}
		if was := before[s.Name]; was != s.Value && !(s.Detail && changed) {
			other = append(other, fmt.Sprintf("%s %s (now %s)", s.Name, orNone(was), orNone(s.Value)))
		}
	}
	if len(other) == 0 {
		return nil
	}
	return fmt.Errorf("it is of other settings: %s: make it again with these, or leave it out",
		strings.Join(other, ", "))
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return strconv.Quote(text)
}

// DefaultTolerance is the tolerance of times by the clock in settings, in percent.
func DefaultTolerance(s []Setting) float64 {
	for _, s := range s {
		if s.Name == Clock && s.Value == configs.RealClock {
			return RealTolerance
		}
	}
	return ExactTolerance
}

// Compare compares now with a baseline of this name. A time is slower or faster if it differs by more than tolerance
// percent. It is an error if the settings differ, or if no time is in both.
func Compare(name string, before, now *Run, tolerance float64) (*Comparison, error) {
	if err := before.Check(now.Settings); err != nil {
		return nil, err
	}
	c := &Comparison{Baseline: name, Tolerance: tolerance, Slower: []Change{}, Faster: []Change{},
		times: now.Times}
	joined := compare.Rows(now.Times, before.Times, func(t Time) string { return t.What })
	if c.Compared = len(joined.Pairs); c.Compared == 0 {
		return nil, fmt.Errorf("none of its times is of this run: it has %s, this run has %s", before.Times[0].What,
			now.first())
	}
	for _, p := range joined.Pairs {
		switch t, was := p[0], p[1]; {
		case t.US > was.US*(1+tolerance/100):
			c.Slower = append(c.Slower, newChange(t, was))
		case t.US < was.US*(1-tolerance/100):
			c.Faster = append(c.Faster, newChange(t, was))
		}
	}
	if before.NCCL != now.NCCL {
		c.Notes = append(c.Notes, fmt.Sprintf("the baseline is of NCCL %s, this run of %s", before.NCCL, now.NCCL))
	}
	c.note("not in the baseline", joined.Only[0])
	c.note("only in the baseline", joined.Only[1])
	return c, nil
}

func (r *Run) first() string {
	if len(r.Times) == 0 {
		return "none"
	}
	return r.Times[0].What
}

// newChange is the difference between a time and the one before. Nothing is rounded: the tolerance is exact.
func newChange(now, was Time) Change {
	c := Change{What: now.What, US: now.US, BeforeUS: was.US, Percent: compare.Percent(was.US, now.US)}
	if now.Choice != was.Choice {
		c.Choice, c.Before = now.Choice, was.Choice
	}
	return c
}

// note names the times that only one of the runs has.
func (c *Comparison) note(where string, what []Time) {
	switch n := len(what); n {
	case 0:
	case 1:
		c.Notes = append(c.Notes, fmt.Sprintf("%s: %s", where, what[0].What))
	default:
		c.Notes = append(c.Notes, fmt.Sprintf("%s: %d times, such as %s", where, n, what[0].What))
	}
}

// SlowerAt is how the i-th time of the run is slower; nil if it is not.
func (c *Comparison) SlowerAt(i int) *Change {
	if c == nil {
		return nil
	}
	at := slices.IndexFunc(c.Slower, func(s Change) bool { return s.What == c.times[i].What })
	if at < 0 {
		return nil
	}
	return &c.Slower[at]
}

// Lines is the comparison for people: a line that sums up, then one for each time that differs, the slower ones first.
// It is nil if there is no comparison.
func (c *Comparison) Lines() []string {
	if c == nil {
		return nil
	}
	out := []string{c.Summary()}
	for _, changes := range []struct {
		word string
		list []Change
	}{{"slower", c.Slower}, {"faster", c.Faster}} {
		for _, change := range changes.list {
			out = append(out, changes.word+": "+change.String())
		}
	}
	return append(out, c.Notes...)
}

// Summary is the comparison in one line.
func (c *Comparison) Summary() string {
	return fmt.Sprintf("baseline %s: of %s, %d slower and %d faster by more than %s %%", c.Baseline,
		units.Count(c.Compared, "time"), len(c.Slower), len(c.Faster), strconv.FormatFloat(c.Tolerance, 'f', -1, 64))
}

func (c *Change) String() string {
	text := fmt.Sprintf("%s: %s us, %s us in the baseline", c.What, number3(c.US), number3(c.BeforeUS))
	if c.Percent != nil {
		text += fmt.Sprintf(" (%s %%)", percent(*c.Percent))
	}
	if c.Choice != c.Before {
		text += fmt.Sprintf("; NCCL chose %s, %s in the baseline", known(c.Choice), known(c.Before))
	}
	return text
}

func known(choice string) string {
	if choice == "" {
		return "what is not known"
	}
	return choice
}

// number3 has as many decimals as a time in nanoseconds has.
func number3(us float64) string { return strconv.FormatFloat(math.Round(us*1e3)/1e3, 'f', -1, 64) }

// percent has a sign, and enough decimals that a difference is none of 0.
func percent(v float64) string {
	decimals := 1
	for ; decimals < 6 && math.Abs(v) < math.Pow10(-decimals)*10; decimals++ {
	}
	return fmt.Sprintf("%+.*f", decimals, v)
}
