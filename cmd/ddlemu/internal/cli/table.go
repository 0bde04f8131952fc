// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/report/forecast"
)

// NewTable returns a table without borders that is rendered to w. Columns whose names end in a space are aligned right.
func NewTable(w io.Writer, header ...string) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	row := table.Row{}
	var columns []table.ColumnConfig
	for i, name := range header {
		right := strings.HasSuffix(name, " ")
		row = append(row, strings.TrimSpace(name))
		if right {
			columns = append(columns,
				table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.AppendHeader(row)
	t.SetColumnConfigs(columns)
	return t
}

// Rate formats bytes per second in the usual way for networks: "118.7 MB/s".
func Rate(bytesPerSecond float64) string {
	if bytesPerSecond == 0 {
		return units.Unlimited.String()
	}
	return units.SI(bytesPerSecond) + "B/s"
}

// Ago formats a duration with few digits.
func Ago(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Us formats microseconds with two decimals, "-" for 0.
func Us(t float64) string {
	if t == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", t)
}

// PrintParts prints where the time of calls goes, a row for each. A row begins with what head names, and has the parts
// that any call has: us of a call, and percent of its time.
func PrintParts(w io.Writer, head []string, begin []table.Row, of []*forecast.Parts) {
	names := forecast.PartNames(of)
	head = append(head, "us ")
	for _, name := range names {
		head = append(head, strings.Replace(name, " ", "\n", 1)+" ")
	}
	t := NewTable(w, head...)
	for i, p := range of {
		row := append(table.Row{}, begin[i]...)
		row = append(row, Us(p.US()))
		for _, name := range names {
			cell := "-"
			if part := p.Of(name); part.NS > 0 {
				cell = fmt.Sprintf("%s %2.0f%%", Us(part.US), part.Percent)
			}
			row = append(row, cell)
		}
		t.AppendRow(row)
	}
	t.Render()
}

// PrintVerdict prints what each link carried and its lateness, notes, reasons, and the verdict in the last line. more
// is the option that shows all reasons, see [verdict.Verdict.Lines].
func PrintVerdict(w io.Writer, v verdict.Verdict, more string) {
	if len(v.Links) > 0 {
		t := NewTable(w, "link", "messages ", "bytes ", "model Gb/s ", "measured Gb/s ", "busy ", "idle ", "late p50 ",
			"late p99 ", "late max ", "late % ")
		for _, l := range v.Links {
			for i, c := range l.Classes {
				row := table.Row{"", fmt.Sprintf("%d %s", c.Messages, c.Name), c.Bytes, "", "", "", ""}
				if i == 0 {
					row = table.Row{l.Name, row[1], c.Bytes, Gbps(l.ModelBps), Gbps(l.MeasuredBps),
						l.Busy.Round(time.Microsecond), l.Idle.Round(time.Microsecond)}
				}
				t.AppendRow(append(row, c.P50, c.P99, c.Max, fmt.Sprintf("%.2f", c.LatePercent)))
			}
		}
		t.Render()
	}
	lines.Print(w, "note: %s\n", v.Notes)
	lines.Print(w, "ddlemu: %s\n", v.Lines(more))
	fmt.Fprintf(w, "verdict: %s\n", v.Word)
}

// Gbps formats bits per second in Gb/s.
func Gbps(bps float64) string { return fmt.Sprintf("%.4g", bps/1e9) }
