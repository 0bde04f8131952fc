// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/shaper/run/perform"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
)

// print prints a report, and fails if an element is wrong.
func (r *scheduleRun) print(report *perform.Report) error {
	if err := r.g.Print(report, func(w io.Writer) { r.printText(w, report) }); err != nil {
		return err
	}
	if wrong := report.Wrong(); wrong > 0 {
		return errors.New(units.Count(int(wrong), "element") + " of the results wrong: see #wrong")
	}
	return nil
}

func (r *scheduleRun) printText(w io.Writer, report *perform.Report) {
	r.printTable(w, report)
	if n := len(report.Rows); n > 0 {
		r.printLoads(w, &report.Rows[n-1])
	}
	lines.Print(w, "note: %s\n", report.Notes)
	if v := report.Judged; v != nil {
		lines.Print(w, "ddlemu: %s\n", v.Lines(""))
		fmt.Fprintf(w, "verdict: %s\n", v.Word)
	}
}

func (r *scheduleRun) printTable(w io.Writer, report *perform.Report) {
	c := &r.place.Fabric.Config
	fmt.Fprintf(w, "# ddlemu schedule run %s: %s\n", report.Schedule, describeSchedule(r.s))
	what := "datapath shm  clock " + c.ClockName()
	switch {
	case r.o.Model:
		what = "calculated by the link model alone"
	case r.o.Via == viaP2P:
		what += "  via p2p (coarser: groups of ncclSend and ncclRecv, whole chunks)  NCCL " + report.NCCL
	}
	fmt.Fprintf(w, "# fabric %s  nodes %d  %s  calls %d\n", c.Name, c.Nodes, what, r.o.Iters)
	printInForce(w, &report.InForce)
	t := cli.NewTable(w, "size(B) ", "count ", "type ", "redop ", "place", "avg_time(us) ", "min_time(us) ",
		"avg_algbw(GiB/s) ", "max_algbw(GiB/s) ", "avg_algbw(GB/s) ", "max_algbw(GB/s) ", "busbw(GB/s) ", "#wrong ",
		"expected(us) ", "diff(%) ", "bound(us) ")
	redop := "none"
	if r.s.Coll.Reduces() {
		redop = "sum"
	}
	for _, row := range report.Rows {
		const gib = 1 << 30
		avg, most := row.Algbw(row.Avg), row.Algbw(row.Min)
		t.AppendRow(table.Row{
			row.Size, row.Count, "int32", redop, row.Place, twoDigits(row.Avg), twoDigits(row.Min),
			twoDigits(avg / gib), twoDigits(most / gib), twoDigits(avg / 1e9), twoDigits(most / 1e9),
			twoDigits(row.Busbw),
			wrongText(row.Wrong), twoDigits(row.Expected), diffText(row.Diff), cli.Us(row.Bound),
		})
	}
	t.Render()
}

func twoDigits(x float64) string { return fmt.Sprintf("%.2f", x) }

func wrongText(n *uint64) string {
	if n == nil {
		return "N/A"
	}
	return fmt.Sprint(*n)
}

func diffText(d *float64) string {
	if d == nil {
		return "-"
	}
	return twoDigits(*d)
}

// shownLoads is the number of hops that are shown.
const shownLoads = 3

// printLoads prints the busiest hops of a row.
func (r *scheduleRun) printLoads(w io.Writer, row *perform.Row) {
	for i, l := range row.Loads {
		if i == shownLoads || l.BusyNs == 0 {
			break
		}
		fmt.Fprintf(w, "# %s carries %s, busy for %.2f of %.2f us\n", r.place.Fabric.HopName(l.Hop),
			units.Volume(l.Bytes), l.BusyNs/1e3, row.Expected)
	}
}
