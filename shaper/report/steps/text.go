// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"cmp"
	"fmt"
	"io"
	"slices"
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

// insideNote says what was not emulated of the calls, "" if all data crosses nodes, if GPUs carried it, or if nodes cost
// time.
func (r *Result) insideNote() string {
	in, took := r.Inside, "takes no time here"
	if !r.Forecast && !r.Facts.Fabric.Config.IsVirtual() {
		took = "takes the time of this host's memory"
	}
	switch {
	case r.Facts.CUDA != "soft" || r.Facts.Fabric.Config.NodeTime || in.Calls == 0 && in.Partly == 0:
		return ""
	case in.Calls == 0:
		return fmt.Sprintf(
			"within nodes: the part of %s between ranks of one node %s: NVLink and PCIe are not emulated",
			units.Count(in.Partly, "call"), took)
	}
	text := fmt.Sprintf("within nodes: %s of %s in all stay on one node", units.Count(in.Calls, "call"),
		units.Volume(uint64(in.Bytes)))
	if in.Calls == 1 {
		text = fmt.Sprintf("within nodes: 1 call of %s stays on one node", units.Volume(uint64(in.Bytes)))
	}
	if in.Partly > 0 {
		text += fmt.Sprintf(", and a part of %s", units.Count(in.Partly, "other call"))
	}
	return text + fmt.Sprintf(": this %s, because NVLink and PCIe are not emulated", took)
}

// apart is how many of the steps come before and after the usual ones.
func (r *Result) apart() (warmup, ending int) {
	n := len(r.Steps)
	usual := r.Usual.Of(r.Steps)
	if len(usual) == n {
		return 0, 0
	}
	return r.Usual.From, n - r.Usual.From - len(usual)
}

// usualNote says which steps the mean leaves out; "" if none.
func (r *Result) usualNote() string {
	warmup, ending := r.apart()
	if warmup+ending == 0 {
		return ""
	}
	n := len(r.Steps)
	var apart []string
	if warmup > 0 {
		apart = append(apart, stepsText(1, warmup)+" at the beginning (a warm-up)")
	}
	if ending > 0 {
		apart = append(apart, stepsText(n-ending+1, n)+" at the end")
	}
	return fmt.Sprintf("%s: other calls than most steps, so the mean is of %s", strings.Join(apart, " and "),
		stepsText(warmup+1, n-ending))
}

// stepsText names steps, from 1.
func stepsText(first, last int) string {
	if first == last {
		return fmt.Sprintf("step %d", first)
	}
	return fmt.Sprintf("steps %d to %d", first, last)
}

// mostSteps is how many rows a table of steps has. JSON has all steps.
const mostSteps = 20

// stepRow is a row of a table of steps: one step, or several in a row that print the same.
type stepRow struct {
	first, last int // from 0
	text        string
	time        time.Duration // of the first one
}

// name is the number of the step, or the first and the last one.
func (r *stepRow) name() string {
	if r.first == r.last {
		return strconv.Itoa(r.first + 1)
	}
	return fmt.Sprintf("%d-%d", r.first+1, r.last+1)
}

// foldSteps are the rows of n steps with these texts and times. Up to mostSteps each step has its row. Of more, those
// in a row with one text share a row. If there are still too many rows, the first one is left and those whose times
// differ most from the median, and note says what was left out; else it is "".
func foldSteps(n int, text func(step int) string, took func(step int) time.Duration) (rows []stepRow, note string) {
	for i := range n {
		row := stepRow{first: i, last: i, text: text(i), time: took(i)}
		if last := len(rows) - 1; n > mostSteps && last >= 0 && rows[last].text == row.text {
			rows[last].last = i
			continue
		}
		rows = append(rows, row)
	}
	if len(rows) <= mostSteps {
		return rows, ""
	}
	middle := medianOf(n, took)
	order := slices.Clone(rows[1:])
	slices.SortStableFunc(order,
		func(a, b stepRow) int { return cmp.Compare((b.time - middle).Abs(), (a.time - middle).Abs()) })
	shown, left := order[:mostSteps-1], order[mostSteps-1:]
	slices.SortFunc(shown, func(a, b stepRow) int { return cmp.Compare(a.first, b.first) })
	steps, least, most := 0, left[0].time, left[0].time
	for _, r := range left {
		steps += r.last - r.first + 1
		least, most = min(least, r.time), max(most, r.time)
	}
	return slices.Concat(rows[:1], shown),
		fmt.Sprintf(
			"%d more steps, of %s to %s ms: see --json; shown are the first one and those that differ most from the "+
				"median, %s ms",
			steps, milliseconds(least), milliseconds(most), milliseconds(middle))
}

// medianOf is the median of the times of n steps.
func medianOf(n int, took func(step int) time.Duration) time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = took(i)
	}
	slices.Sort(all)
	return all[n/2]
}
