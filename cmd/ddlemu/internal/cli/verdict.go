// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

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
