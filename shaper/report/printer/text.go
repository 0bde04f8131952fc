// SPDX-License-Identifier: Apache-2.0

// Package printer prints the rows of a bench: nccl-tests' table, JSON and comma-separated values.
package printer

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// textPrinter writes nccl-tests' table with the same columns and widths, so that results compare line by line and
// scripts that read columns by number work. Expected times follow in columns to the right.
type textPrinter struct {
	w      io.Writer
	chosen decisions
	doubts doubts
	notIn  []string // see [bench.Header.NotIn]
}

// doubts are what the reader must know of the expected times.
type doubts struct {
	spread       float64 // the largest of a row, in percent
	spreadSize   int64   // the row's
	extrapolated []string
}

// spreadToTell is the spread, in percent, from which on a reader must know of it.
const spreadToTell = 1

func (d *doubts) add(r bench.Row) {
	extrapolated := false
	for _, m := range r.Measurements() {
		if m.Spread > d.spread {
			d.spread, d.spreadSize = m.Spread, r.Size
		}
		extrapolated = extrapolated || m.Extrapolated
	}
	if extrapolated {
		d.extrapolated = append(d.extrapolated, strconv.FormatInt(r.Size, 10))
	}
}

func (d *doubts) lines() (out []string) {
	if d.spread > spreadToTell {
		out = append(out,
			fmt.Sprintf(
				"a run may be up to %.1f %% off the expected time, which is a mean over random jitter, losses and "+
					"orders of flows: %d bytes", d.spread, d.spreadSize))
	}
	if len(d.extrapolated) > 0 {
		out = append(out,
			fmt.Sprintf("the expected time is extrapolated, because only some iterations were simulated: %s bytes",
				strings.Join(d.extrapolated, ", ")))
	}
	return out
}

// NewText returns a printer of nccl-tests' table for a terminal. Columns to the right have the expected time and the
// difference in percent of each half, with "!" if it is [bench.Measurement.Off] and "-" if nothing is expected. Other
// lines begin with "#", except the last: "verdict: VALID" or "verdict: INVALID". NCCL's decisions follow the rows.
func NewText(w io.Writer) bench.Printer { return &textPrinter{w: w} }

// Begin prints the header of the measurement and the column names.
func (p *textPrinter) Begin(h bench.Header) error {
	p.notIn = h.NotIn
	var b strings.Builder
	library := fmt.Sprintf("NCCL %s (%s)", h.NCCL, h.NCCLLib)
	if h.NCCL == "" {
		library = "NCCL had not started"
	}
	fmt.Fprintf(&b, "# ddlemu bench %s: %s, CUDA %s\n", h.Collective, library, h.CUDA)
	clock := h.Clock
	if clock == configs.RealClock {
		clock += "  time scale " + strconv.FormatFloat(h.TimeScale, 'g', -1, 64)
	}
	fmt.Fprintf(&b, "# profile %s  datapath %s  clock %s  ranks %d  nodes %d\n", h.Profile, h.Datapath, clock, h.Ranks,
		h.Nodes)
	if h.Fabric.Text != "" {
		fmt.Fprintf(&b, "# fabric: %s\n", h.Fabric.Text)
	}
	fmt.Fprintf(&b, "# warmup iters: %d iters: %d validation: %d\n", h.Warmup, h.Iters, map[bool]int{true: 1}[h.Check])
	lines.Print(&b, "# %s\n", h.Notes)
	b.WriteString("#\n")
	line := func(format string, fields ...any) {
		b.WriteString(strings.TrimRight(fmt.Sprintf(format, fields...), " ") + "\n")
	}
	line("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          %s", "", "", "",
		"", "",
		"     out-of-place           in-place")
	const names = "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %6s  %7s  %6s  %6s  %6s  %9s %8s  %9s %8s"
	line(names, "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
		"#wrong", "expected", "diff", "expected", "diff")
	line(names, "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "",
		"(us)", "(%)", "(us)", "(%)")
	_, err := io.WriteString(p.w, b.String())
	return err
}

// Row prints one row.
func (p *textPrinter) Row(r bench.Row) error {
	p.chosen.add(r)
	p.doubts.add(r)
	var b strings.Builder
	fmt.Fprintf(&b, "%12d  %12d  %8s  %6s  %6d", r.Size, r.Count, r.Type, r.Op, r.Root)
	measured(&b, &r.OutOfPlace)
	measured(&b, r.InPlace)
	expected(&b, &r.OutOfPlace)
	expected(&b, r.InPlace)
	_, err := io.WriteString(p.w, strings.TrimRight(b.String(), " ")+"\n")
	return err
}

func measured(b *strings.Builder, m *bench.Measurement) {
	if m == nil {
		fmt.Fprintf(b, "  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A")
		return
	}
	wrong := "N/A"
	if m.Checked {
		wrong = fmt.Sprintf("%.6g", float64(m.Wrong))
	}
	fmt.Fprintf(b, "  %7s  %6s  %6s  %6s", fit(7, units.Microseconds(m.Time)), fit(6, m.AlgBW), fit(6, m.BusBW), wrong)
}

func expected(b *strings.Builder, m *bench.Measurement) {
	if m == nil || !m.Known {
		fmt.Fprintf(b, "  %9s %8s", "-", "-")
		return
	}
	mark := " "
	if m.Off {
		mark = "!"
	}
	fmt.Fprintf(b, "  %9s %+7.2f%s", fit(9, units.Microseconds(m.Expected)), m.Diff, mark)
}

// fit formats a number with at most two decimals, and fewer if the width is too small, as nccl-tests does.
func fit(width int, value float64) string {
	for decimals := 2; decimals >= 0; decimals-- {
		if s := strconv.FormatFloat(value, 'f', decimals, 64); len(s) <= width {
			return s
		}
	}
	return strconv.FormatFloat(value, 'e', 1, 64)
}

// NotInText is the line below a table that says what its times lack of a real run; none if they lack nothing.
func NotInText(notIn []string) []string {
	if len(notIn) == 0 {
		return nil
	}
	return []string{"not in the numbers: " + strings.Join(notIn, "; ")}
}

// End prints NCCL's decisions, nccl-tests' two closing lines, notes, reasons and the verdict.
func (p *textPrinter) End(s bench.Summary) error {
	var b strings.Builder
	lines.Print(&b, "# NCCL chose: %s\n", p.chosen.lines())
	lines.Print(&b, "# expected: %s\n", p.doubts.lines())
	lines.Print(&b, "# %s\n", NotInText(p.notIn))
	state := "OK"
	if s.Wrong != 0 {
		state = "FAILED"
	}
	fmt.Fprintf(&b, "# Out of bounds values : %d %s\n", s.Wrong, state)
	fmt.Fprintf(&b, "# Avg bus bandwidth    : %g\n#\n", rounded(s.AvgBusBW))
	lines.Print(&b, "# %s\n", compared(&s))
	lines.Print(&b, "# note: %s\n", s.Verdict.Notes)
	lines.Print(&b, "# %s\n", s.Lines)
	fmt.Fprintf(&b, "verdict: %s\n", s.Verdict.Word)
	_, err := io.WriteString(p.w, b.String())
	return err
}
