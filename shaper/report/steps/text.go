// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/report/compare"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// WriteText writes a result for people. more is the option that shows all reasons for INVALID, see
// [verdict.Verdict.Lines].
func (r *Result) WriteText(w io.Writer, more string) error {
	t := &text{Result: r}
	t.header()
	t.steps()
	t.calls()
	t.composition()
	t.hops()
	t.end(more)
	_, err := io.WriteString(w, t.b.String())
	return err
}

// text is the output so far.
type text struct {
	*Result
	b strings.Builder
}

func (t *text) line(format string, fields ...any) {
	t.b.WriteString(strings.TrimRight(fmt.Sprintf(format, fields...), " ") + "\n")
}

func (t *text) header() {
	f, c := &t.Facts, &t.Facts.Fabric.Config
	head := &f.Workload.Workload.Head
	clock := configs.VirtualClock
	if !c.IsVirtual() {
		clock = fmt.Sprintf("%s  time scale %d", configs.RealClock, t.Scale)
	}
	t.line("# ddlemu %s %s: NCCL %s (%s), CUDA %s", t.command(), cmp.Or(head.Name, "workload"), f.NCCL, f.NCCLLib,
		f.CUDA)
	t.line("# profile %s  datapath %s  clock %s  ranks %d  nodes %d  steps %d", c.Name, c.DatapathName(), clock,
		head.Ranks, t.nodes(), len(t.Steps))
	t.inForce(t.InForce)
	if s := &head.Source; s.Kind != "" {
		t.line("# workload from %s", strings.Join(nonEmpty(s.Kind, s.File, s.Hardware), ", "))
	}
	lines.Print(&t.b, "# the source does not say: %s\n", head.Source.Missing)
	t.sourceNotes()
	lines.Print(&t.b, "# %s\n", t.Notes)
	t.line("#")
}

// inForce says what the fabric has in force, and what GPUs cost.
func (t *text) inForce(in configs.InForce) {
	if in.Text != "" {
		t.line("# fabric: %s", in.Text)
	}
	if in.GPUTime != "" {
		t.line("# GPU time: %s", in.GPUTime)
	}
}

// command is the one that gives a result.
func (r *Result) command() string {
	if r.Forecast {
		return "expect"
	}
	return "replay"
}

// sourceNotes are what the workload says of how it was made and changed, NCCL's variables of the job, and the parts
// that are not emulated.
func (t *text) sourceNotes() {
	lines.Print(&t.b, "# %s\n", t.Facts.Workload.Workload.Head.Source.Notes)
	lines.Print(&t.b, "# %s\n", t.Facts.VariableNotes())
	if note := t.insideNote(); note != "" {
		t.line("# %s", note)
	}
}

func nonEmpty(all ...string) (out []string) {
	for _, s := range all {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// nodes is the number of nodes of the ranks.
func (r *Result) nodes() int {
	f := &r.Facts
	seen := map[int]bool{}
	for rank := range f.Workload.Workload.Head.Ranks {
		seen[f.Node(rank)] = true
	}
	return len(seen)
}

func (t *text) steps() {
	t.line("# %6s  %10s  %10s  %10s  %10s  %10s  %10s  %7s%s", "step", "time", "compute", "exposed", "waiting",
		"hidden", "idle", "slowest", t.compared(10, "expected", "diff"))
	t.line("# %6s  %10s  %10s  %10s  %10s  %10s  %10s  %7s%s", "", "(ms)", "(ms)", "(ms)", "(ms)", "(ms)", "(ms)",
		"rank", t.compared(10, "(ms)", "(%)"))
	rows, note := foldSteps(len(t.Steps),
		func(i int) string { return t.step(t.Steps[i], strconv.Itoa(t.Steps[i].Slowest), t.expected(i)) },
		func(i int) time.Duration { return t.Steps[i].Time })
	for i := range rows {
		t.line("%8s  %s", rows[i].name(), rows[i].text)
	}
	if note != "" {
		t.line("# %s", note)
	}
	if len(t.Steps) > 1 {
		t.line("%8s  %s", "mean", t.step(t.Mean(), "", t.meanExpected()))
	}
	if note := t.usualNote(); note != "" {
		t.line("# %s", note)
	}
	t.line("#")
}

// expected is what the model gives for a step; nil if there is none.
func (r *Result) expected(step int) *time.Duration {
	if step >= len(r.Model) {
		return nil
	}
	return &r.Model[step].Time
}

func (r *Result) meanExpected() *time.Duration {
	if len(r.Model) == 0 {
		return nil
	}
	return new(play.Mean(r.Usual.Of(r.Model)).Time)
}

// step is a row of the table of steps without its name.
func (t *text) step(s play.Step, slowest string, expected *time.Duration) string {
	want, diff := "-", "-"
	if expected != nil {
		want, diff = milliseconds(*expected), difference(s.Time, *expected)
	}
	return fmt.Sprintf("%10s  %10s  %10s  %10s  %10s  %10s  %7s%s", milliseconds(s.Time), milliseconds(s.Compute),
		milliseconds(s.Exposed), milliseconds(s.Waiting),
		milliseconds(s.Hidden), milliseconds(s.Idle), slowest, t.compared(10, want, diff))
}

// compared are the columns that compare a time with the model; "" if all times are the model's.
func (t *text) compared(width int, want, diff string) string {
	if t.Forecast {
		return ""
	}
	return fmt.Sprintf("  %*s  %8s", width, want, diff)
}

func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
}

func microseconds(d time.Duration) string {
	return strconv.FormatFloat(units.Microseconds(d), 'f', 2, 64)
}

// difference is by how much a time is more than the expected one, in percent.
func difference(got, want time.Duration) string {
	percent := compare.Percent(float64(want), float64(got))
	if percent == nil {
		return "-"
	}
	return fmt.Sprintf("%+.2f", *percent)
}

func (t *text) calls() {
	if len(t.Calls) == 0 {
		return
	}
	width, grouped := len("comm"), false
	for _, c := range t.Calls {
		width, grouped = max(width, len(c.Comm)), grouped || c.Grouped
	}
	waiting := func(value string) string {
		if !grouped {
			return ""
		}
		return fmt.Sprintf("  %11s", value)
	}
	const rest = "  %5s  %12s  %6s  %11s%s  %11s  %7s  %-22s%s"
	t.line("# %-13s  %-*s"+rest, "function", width, "comm", "ranks", "size", "calls", "mean", waiting("waiting"), "max",
		"busbw", "NCCL's choice", t.compared(11, "expected", "diff"))
	t.line("# %-13s  %-*s"+rest, "", width, "", "", "(B)", "", "(us)", waiting("(us)"), "(us)", "(GB/s)", "",
		t.compared(11, "(us)", "(%)"))
	for _, c := range t.Calls {
		want, diff := "-", "-"
		if c.Known {
			want, diff = microseconds(c.Expected), difference(c.Mean, c.Expected)
		}
		t.line("  %-13s  %-*s"+rest, c.Func, width, c.Comm, strconv.Itoa(c.Ranks), strconv.FormatInt(c.Size, 10),
			strconv.Itoa(c.Count), microseconds(c.Mean),
			waiting(microseconds(c.Waiting)), microseconds(c.Max), strconv.FormatFloat(c.BusBW, 'f', 2, 64), choice(&c),
			t.compared(11, want, diff))
	}
	if grouped {
		t.line(
			"# waiting: the part of mean in which a rank of another call of the group was not ready; busbw is by the " +
				"whole mean")
	}
	t.line("#")
}

// composition writes the parts of the steps.
func (t *text) composition() {
	if t.Time <= 0 {
		return
	}
	t.line("# %-13s  %10s  %8s  %10s", "part of steps", "time", "share", "waiting")
	t.line("# %-13s  %10s  %8s  %10s", "", "(ms)", "(%)", "(ms)")
	for _, s := range t.Composition {
		waiting := milliseconds(s.Waiting)
		if s.What == play.Computation || s.What == play.Idle {
			waiting = "-"
		}
		t.line("  %-13s  %10s  %8.1f  %10s", s.What, milliseconds(s.Time), 100*float64(s.Time)/float64(t.Time), waiting)
	}
	t.line("#")
}

// choice is what NCCL decided, in words.
func choice(c *play.Calls) string {
	text := strings.TrimSpace(c.Algo + " " + c.Proto)
	switch {
	case text == "" && c.Grouped:
		return "in groups"
	case text == "":
		return "-"
	case c.Channels > 0:
		text += " x" + strconv.Itoa(c.Channels)
	}
	if c.Grouped {
		text += ", in groups"
	}
	return text
}

// total writes the time of all steps: the interval of the model, if the source does not say what took how long.
func (t *text) total() {
	least, most := t.Interval.Bounds()
	between := fmt.Sprintf("%s to %s ms", milliseconds(least), milliseconds(most))
	switch {
	case t.Interval.Reason == "":
		t.line("# Time of all steps    : %s ms", milliseconds(t.Time))
		return
	case t.Forecast:
		t.line("# Time of all steps    : %s", between)
	default:
		t.line("# Time of all steps    : %s ms; by the model %s", milliseconds(t.Time), between)
	}
	lines.Print(&t.b, "# %s\n", []string{t.Interval.Reason})
}

func (t *text) end(more string) {
	state := "OK"
	switch {
	case t.Wrong > 0:
		state = "FAILED"
	case t.Checked == 0:
		state = "not compared"
	}
	if !t.Forecast {
		t.line("# Out of bounds values : %d %s", t.Wrong, state)
	}
	t.total()
	lines.Print(&t.b, "# %s\n", printer.NotInText(t.NotIn))
	t.line("#")
	lines.Print(&t.b, "# %s\n", t.Baseline.Lines())
	if t.Forecast {
		return
	}
	if t.Problem != "" {
		t.line("# note: no expected times: %s", t.Problem)
	}
	lines.Print(&t.b, "# note: %s\n", t.Verdict.Notes)
	lines.Print(&t.b, "# %s\n", t.Verdict.Lines(more))
	t.line("verdict: %s", t.Verdict.Word)
}
