// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/compare"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// Comparison is a workload on two fabrics: the original one and another one.
type Comparison struct {
	Original, Emulated *Result
}

// calls joins the equal calls of both. Each has all, because they played one workload.
func (c *Comparison) calls() [][2]play.Calls {
	type kind struct {
		function, comm string
		ranks          int
		size           int64
	}
	return compare.Rows(c.Original.Calls, c.Emulated.Calls,
		func(c play.Calls) kind { return kind{c.Func, c.Comm, c.Ranks, c.Size} }).Pairs
}

// WriteText writes what both took, and by how much the second differs.
func (c *Comparison) WriteText(w io.Writer, more string) error {
	t := &text{Result: c.Original}
	name := cmp.Or(c.Original.Facts.Workload.Workload.Head.Name, "workload")
	t.line("# ddlemu replay %s on two fabrics: NCCL %s, CUDA %s", name, c.Original.Facts.NCCL, c.Original.Facts.CUDA)
	for _, r := range []struct {
		column string
		result *Result
	}{{"ori", c.Original}, {"emu", c.Emulated}} {
		f := &r.result.Facts.Fabric.Config
		t.line("# %s: profile %s  clock %s  nodes %d", r.column, f.Name, f.ClockName(), r.result.nodes())
		t.line("# %s: fabric: %s", r.column, r.result.InForce.Text)
	}
	t.sourceNotes()
	// a fabric that is up may place the ranks otherwise
	if note := c.Emulated.insideNote(); note != c.Original.insideNote() {
		t.line("# emu: %s", cmp.Or(note, "no call stays within a node"))
	}
	t.line("#")
	t.comparedCalls(c.calls())
	t.comparedSteps(c)
	t.line("#")
	for _, r := range []*Result{c.Original, c.Emulated} {
		for _, note := range r.Verdict.Notes {
			t.line("# note: %s: %s", r.Facts.Fabric.Config.Name, note)
		}
		for _, line := range r.Verdict.Lines(more) {
			t.line("# %s: %s", r.Facts.Fabric.Config.Name, line)
		}
	}
	t.line("verdict: %s", c.Word())
	_, err := io.WriteString(w, t.b.String())
	return err
}

// Word is VALID if both are.
func (c *Comparison) Word() string {
	if !c.Original.Verdict.Valid {
		return c.Original.Verdict.Word
	}
	return c.Emulated.Verdict.Word
}

func (t *text) comparedCalls(pairs [][2]play.Calls) {
	width := len("comm")
	for _, p := range pairs {
		width = max(width, len(p[0].Comm))
	}
	const rest = "  %5s  %12s  %6s  %12s  %12s  %9s  %s"
	t.line("# %-13s  %-*s"+rest, "function", width, "comm", "ranks", "size", "calls", "ori", "emu", "diff",
		"NCCL's choice")
	t.line("# %-13s  %-*s"+rest, "", width, "", "", "(B)", "", "(us)", "(us)", "(%)", "")
	for _, p := range pairs {
		o, e := &p[0], &p[1]
		chosen := choice(o)
		if other := choice(e); other != chosen {
			chosen += ", " + other
		}
		t.line("  %-13s  %-*s"+rest, o.Func, width, o.Comm, strconv.Itoa(o.Ranks), strconv.FormatInt(o.Size, 10),
			strconv.Itoa(o.Count),
			microseconds(o.Mean), microseconds(e.Mean), difference(e.Mean, o.Mean), chosen)
	}
	t.line("#")
}

func (t *text) comparedSteps(c *Comparison) {
	t.line("# %6s  %12s  %12s  %9s  %12s  %12s", "step", "ori", "emu", "diff", "exposed ori", "exposed emu")
	t.line("# %6s  %12s  %12s  %9s  %12s  %12s", "", "(ms)", "(ms)", "(%)", "(ms)", "(ms)")
	row := func(o, e play.Step) string {
		return fmt.Sprintf("%12s  %12s  %9s  %12s  %12s", milliseconds(o.Time), milliseconds(e.Time),
			difference(e.Time, o.Time), milliseconds(o.Exposed), milliseconds(e.Exposed))
	}
	n := min(len(c.Original.Steps), len(c.Emulated.Steps))
	rows, note := foldSteps(n, func(i int) string { return row(c.Original.Steps[i], c.Emulated.Steps[i]) },
		func(i int) time.Duration { return c.Emulated.Steps[i].Time })
	for i := range rows {
		t.line("%8s  %s", rows[i].name(), rows[i].text)
	}
	if note != "" {
		t.line("# %s", note)
	}
	whole := func(steps []play.Step) (sum play.Step) {
		for _, s := range steps {
			sum.Time += s.Time
			sum.Exposed += s.Exposed
		}
		return sum
	}
	t.line("%8s  %s", "whole", row(whole(c.Original.Steps), whole(c.Emulated.Steps)))
}

// ComparisonReport is a [Comparison] as JSON.
type ComparisonReport struct {
	Original *Report       `json:"ori"`
	Emulated *Report       `json:"emu"`
	Calls    []CallsDiff   `json:"calls"`
	Steps    []PercentDiff `json:"steps"`
	Whole    PercentDiff   `json:"whole"`
	Verdict  string        `json:"verdict"`
}

// CallsDiff are equal calls on both fabrics.
type CallsDiff struct {
	Func  string `json:"func"`
	Comm  string `json:"comm"`
	Ranks int    `json:"ranks"`
	Size  int64  `json:"size"`
	Count int    `json:"calls"`
	PercentDiff
}

// PercentDiff is a time on both fabrics, in microseconds.
type PercentDiff struct {
	Original float64 `json:"ori_us"`
	Emulated float64 `json:"emu_us"`
	// Percent is by how much the second takes more; null if the first takes no time.
	Percent *float64 `json:"diff_percent"`
}

func percent(original, emulated time.Duration) PercentDiff {
	return PercentDiff{units.Microseconds(original), units.Microseconds(emulated),
		compare.Percent(float64(original), float64(emulated))}
}

// Report returns the comparison for JSON.
func (c *Comparison) Report() *ComparisonReport {
	out := &ComparisonReport{Original: c.Original.Report(), Emulated: c.Emulated.Report(), Calls: []CallsDiff{},
		Steps: []PercentDiff{}, Verdict: c.Word()}
	for _, p := range c.calls() {
		o := &p[0]
		out.Calls = append(out.Calls, CallsDiff{o.Func, o.Comm, o.Ranks, o.Size, o.Count, percent(o.Mean, p[1].Mean)})
	}
	for i := range min(len(c.Original.Steps), len(c.Emulated.Steps)) {
		out.Steps = append(out.Steps, percent(c.Original.Steps[i].Time, c.Emulated.Steps[i].Time))
	}
	out.Whole = percent(c.Original.Time, c.Emulated.Time)
	return out
}
