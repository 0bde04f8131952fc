// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/report/forecast"
	"github.com/ddlemu/ddlemu/shaper/report/printer"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// printForecast prints r as text. several: it is one of several, and begins with its collective.
func printForecast(w io.Writer, r *forecast.Report, several bool) {
	if several {
		fmt.Fprintf(w, "%s: ", r.Collective)
	}
	fmt.Fprintf(w, "NCCL %s, %s on %s of %s", r.NCCL, units.Count(r.Ranks, "rank"), units.Count(r.Nodes, "node"),
		r.Profile)
	if r.GPU != "" {
		fmt.Fprintf(w, ", GPUs %s", r.GPU)
	}
	if r.Fabric.Text != "" {
		fmt.Fprintf(w, "\nfabric: %s", r.Fabric.Text)
	}
	if r.GPUTime != "" {
		fmt.Fprintf(w, "\nGPU time: %s", r.GPUTime)
	}
	fmt.Fprint(w, "\n\n")
	if r.HasLog {
		printJudgements(w, r)
	} else {
		printForecastRows(w, r)
		printParts(w, r)
	}
	printBelow(w, r)
	if r.Ahead {
		fmt.Fprint(w,
			"\nexpected is the mean over the ranks, as in nccl-tests, and bound is for the last rank:\nothers are "+
				"done as soon as their data is in the buffers on the path.\n")
	}
	if r.Baseline != nil {
		fmt.Fprintf(w, "\n%s\n", strings.Join(r.Baseline.Lines(), "\n"))
	}
	lines.Print(w, "\nnote: %s\n", r.Notes)
	if len(r.Summary) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(r.Summary, "\n"))
	}
	if r.Verdict != "" {
		fmt.Fprintf(w, "\nverdict: %s: it was interrupted, and has the rows so far\n", r.Verdict)
	}
}

// printBelow prints what belongs to the rows of a table: the busiest hop of the largest one or of each, and what the
// times lack.
func printBelow(w io.Writer, r *forecast.Report) {
	below := printer.NotInText(r.NotIn)
	if r.HasLog && below != nil { // the times of the log may have all of it
		below = []string{"not in the model's times: " + strings.Join(r.NotIn, "; ")}
	}
	var hops []string
	for _, row := range r.Busiest() {
		hops = append(hops, fmt.Sprintf("busiest hop of %s: %s", units.Count(int(row.Size), "byte"), row.Busiest))
	}
	below = append(hops, below...)
	if len(below) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(below, "\n"))
	}
}

func printForecastRows(w io.Writer, r *forecast.Report) {
	header := []string{"size ", "count ", "algo", "proto", "channels ", "expected us ", "busbw GB/s ", "last rank us ",
		"busiest hop us ", "bound us "}
	if r.NodeTime != "" {
		header = append(header, "limited by")
	}
	t := cli.NewTable(w, append(header, "")...)
	for _, row := range r.Rows {
		cells := table.Row{
			row.Size, row.Count, row.Algo, row.Proto, channelsText(row.Channels), cli.Us(value(row.ExpectedUS)),
			known(row.BusBW), cli.Us(value(row.LastUS)), cli.Us(value(row.BusiestUS)), cli.Us(row.BoundUS),
		}
		if r.NodeTime != "" {
			cells = append(cells, limitText(row.Limit))
		}
		t.AppendRow(append(cells, remark(row)))
	}
	t.Render()
	for _, row := range r.Rows {
		if row.Seeds != nil {
			fmt.Fprintf(w, "\n%s", row.Seeds.Text)
		}
	}
	if len(r.Rows) > 0 && r.Rows[0].Seeds != nil {
		fmt.Fprintln(w)
	}
}

// printParts prints where the times of the rows go, if that was asked for.
func printParts(w io.Writer, r *forecast.Report) {
	var begin []table.Row
	var parts []*forecast.Parts
	for _, row := range r.Rows {
		if row.Parts != nil {
			begin, parts = append(begin, table.Row{row.Size, row.Algo, row.Proto}), append(parts, row.Parts)
		}
	}
	if len(parts) > 0 {
		fmt.Fprint(w, "\nwhere the time until the last rank is done goes, in us and percent:\n")
		cli.PrintParts(w, []string{"size ", "algo", "proto"}, begin, parts)
	}
}

// remark is why a row has no time, or which tuner chooses on the real cluster in place of NCCL.
func remark(r forecast.ReportRow) string {
	var all []string
	if r.Problem != "" {
		all = append(all, r.Problem)
	}
	if r.Tuner != "" {
		all = append(all, "on the real cluster "+r.Tuner+" chooses")
	}
	return strings.Join(all, "; ")
}

// channelsText is "-" if the number is not known.
func channelsText(channels int) string {
	if channels == 0 {
		return "-"
	}
	return fmt.Sprint(channels)
}

// known formats a number with two decimals, "-" for nil.
func known(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *v)
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func printJudgements(w io.Writer, r *forecast.Report) {
	header := []string{"line ", "size ", "", "algo", "proto", "channels ", "time us "}
	if r.NodeTime != "" {
		header = append(header, "expected us ", "limited by")
	} else {
		header = append(header, "network us ")
	}
	if r.Ahead {
		header = append(header, "last rank us ")
	}
	if r.NodeTime == "" {
		header = append(header, "with fixed us ")
	}
	t := cli.NewTable(w, append(header, "bound us ", "judgement", "likely cause")...)
	for _, l := range r.Log {
		row := table.Row{l.Line, l.Size, bench.Place(l.InPlace), l.Algo, l.Proto, channelsText(l.Channels),
			fmt.Sprintf("%.2f", l.TimeUS)}
		if r.NodeTime != "" {
			row = append(row, l.Expected(), limitText(l.Limit))
		} else {
			row = append(row, cli.Us(l.ExpectedUS))
		}
		if r.Ahead {
			row = append(row, cli.Us(l.LastUS))
		}
		if r.NodeTime == "" {
			row = append(row, cli.Us(l.WithFixed))
		}
		t.AppendRow(append(row, cli.Us(l.BoundUS), l.Word, l.Cause))
	}
	t.Render()
	printLines(w, "cut", r.Cut)
	printLines(w, "not understood", r.Odd)
}

// limitText is "-" if nothing is known to limit a call.
func limitText(l *bench.Limit) string {
	if l == nil {
		return "-"
	}
	return l.String()
}

// printLines lists rows of a log that are not judged.
func printLines(w io.Writer, what string, lines []testslog.Line) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s %s:\n", units.Count(len(lines), "row"), what)
	for _, l := range lines {
		fmt.Fprintf(w, "line %d: %s\n", l.Number, l.What)
	}
}
