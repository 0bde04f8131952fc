// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"errors"
	"fmt"
	"io"

	"github.com/ddlemu/ddlemu/configs/lines"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
)

// scheduleReport is the document of --json.
type scheduleReport struct {
	Schedule string        `json:"schedule"`
	Coll     string        `json:"collective"`
	GPUs     int           `json:"gpus"`
	Fabric   string        `json:"fabric"`
	Via      string        `json:"via"`
	NCCL     string        `json:"nccl,omitempty"`
	Rows     []scheduleRow `json:"rows"`
	Notes    []string      `json:"notes,omitempty"`
	Verdict  string        `json:"verdict,omitempty"`
	Reasons  []string      `json:"reasons,omitempty"`
}

// print prints the rows, which are those so far if the run was interrupted, and fails if an element is wrong.
func (r *scheduleRun) print(arg string, rows []scheduleRow, notes []string, interrupted bool) error {
	report := scheduleReport{Schedule: arg, Coll: string(r.s.Coll), GPUs: len(r.s.GPUs),
		Fabric: r.place.Fabric.Config.Name, Via: r.o.Via, NCCL: r.nccl, Rows: append([]scheduleRow{}, rows...),
		Notes: notes}
	v := r.verdict(interrupted)
	if v != nil {
		report.Verdict, report.Reasons = string(v.Word), v.Reasons
	}
	if r.g.JSON {
		if err := r.g.PrintJSON(report); err != nil {
			return err
		}
	} else {
		r.printTable(r.g.Stdout, arg, rows)
		if len(rows) > 0 {
			r.printLoads(r.g.Stdout, &rows[len(rows)-1])
		}
		lines.Print(r.g.Stdout, "note: %s\n", notes)
		if v != nil {
			lines.Print(r.g.Stdout, "ddlemu: %s\n", v.Lines(""))
			fmt.Fprintf(r.g.Stdout, "verdict: %s\n", v.Word)
		}
	}
	wrong := uint64(0)
	for _, row := range rows {
		if row.Wrong != nil {
			wrong += *row.Wrong
		}
	}
	if wrong > 0 {
		return errors.New(units.Count(int(wrong), "element") + " of the results wrong: see #wrong")
	}
	return nil
}

func (r *scheduleRun) printTable(w io.Writer, arg string, rows []scheduleRow) {
	c := &r.place.Fabric.Config
	fmt.Fprintf(w, "# ddlemu schedule run %s: %s\n", arg, describeSchedule(r.s))
	what := "datapath shm  clock " + c.ClockName()
	switch {
	case r.o.Model:
		what = "calculated by the link model alone"
	case r.o.Via == viaP2P:
		what += "  via p2p (coarser: groups of ncclSend and ncclRecv, whole chunks)  NCCL " + r.nccl
	}
	fmt.Fprintf(w, "# fabric %s  nodes %d  %s  calls %d\n", c.Name, c.Nodes, what, r.o.Iters)
	t := cli.NewTable(w, "size(B) ", "count ", "type ", "redop ", "place", "avg_time(us) ", "min_time(us) ",
		"avg_algbw(GiB/s) ", "max_algbw(GiB/s) ", "avg_algbw(GB/s) ", "max_algbw(GB/s) ", "busbw(GB/s) ", "#wrong ",
		"expected(us) ", "diff(%) ", "bound(us) ")
	for _, row := range rows {
		const gib = 1 << 30
		redop := "none"
		if reduces(string(r.s.Coll)) {
			redop = "sum"
		}
		avg, most := row.algbw(row.Avg), row.algbw(row.Min)
		t.AppendRow(table.Row{
			row.Size, row.Count, "int32", redop, row.Place, twoDigits(row.Avg), twoDigits(row.Min),
			twoDigits(avg / gib), twoDigits(most / gib), twoDigits(avg / 1e9), twoDigits(most / 1e9),
			twoDigits(row.Busbw),
			wrongText(row.Wrong), twoDigits(row.Expected), diffText(row.Diff), cli.Us(row.Bound),
		})
	}
	t.Render()
}

func reduces(coll string) bool {
	return coll == "allreduce" || coll == "reducescatter" || coll == "reduce"
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
	return fmt.Sprintf("%.2f", *d)
}

// shownLoads is the number of hops that are shown.
const shownLoads = 3

// printLoads prints the busiest hops of a row.
func (r *scheduleRun) printLoads(w io.Writer, row *scheduleRow) {
	for i, l := range row.loads {
		if i == shownLoads || l.BusyNs == 0 {
			break
		}
		fmt.Fprintf(w, "# %s carries %s, busy for %.2f of %.2f us\n", r.place.Fabric.HopName(l.Hop),
			units.Volume(l.Bytes), l.BusyNs/1e3, row.Expected)
	}
}
