// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/cuda/bench/emulate"
	"github.com/ddlemu/ddlemu/cuda/bench/testslog"
)

// expectReport is what expect --json prints. Times are microseconds.
type expectReport struct {
	NCCL    string       `json:"nccl"`
	Profile string       `json:"profile"`
	Ranks   int          `json:"ranks"`
	Rows    []expectRow  `json:"rows"`
	Log     []judgedTime `json:"log,omitempty"`
	judged  bool
}

type expectRow struct {
	Size       int64    `json:"size"`
	Count      int64    `json:"count"`
	Algo       string   `json:"algo"`
	Proto      string   `json:"proto"`
	Channels   int      `json:"channels"`    // that the call uses; 0 if not known
	ExpectedUS *float64 `json:"expected_us"` // null if not known: then problem says why
	BusBW      *float64 `json:"busbw_gbs"`
	BoundUS    float64  `json:"bound_us"` // 0 where links have no rate
	Problem    string   `json:"problem,omitempty"`
}

// judgedTime is one time of the log.
type judgedTime struct {
	Line       int           `json:"line"`
	Size       int64         `json:"size"`
	InPlace    bool          `json:"inplace"`
	TimeUS     float64       `json:"time_us"`
	ExpectedUS float64       `json:"expected_us"`
	BoundUS    float64       `json:"bound_us"`
	Word       testslog.Word `json:"judgement"`
	Cause      string        `json:"cause,omitempty"`
}

func newExpectReport(nccl, profile string, ranks int, rows []emulate.Forecast, log []testslog.Row) *expectReport {
	r := &expectReport{NCCL: nccl, Profile: profile, Ranks: ranks, Rows: []expectRow{}, judged: log != nil}
	bySize := map[int64]*emulate.Forecast{}
	for i := range rows {
		f := &rows[i]
		bySize[f.Case.Size] = f
		row := expectRow{Size: f.Case.Size, Count: f.Case.Count, BoundUS: micro(f.Bound), Problem: f.Problem}
		if f.Case.Choice != nil {
			row.Algo, row.Proto = f.Case.Choice.Algo, f.Case.Choice.Proto
		}
		if f.Known {
			us := micro(f.Time)
			busbw := float64(f.Case.Size) * f.Case.Collective.BusFactor(ranks) / float64(max(f.Time, 1))
			row.ExpectedUS, row.BusBW, row.Channels = &us, &busbw, f.Channels
		}
		r.Rows = append(r.Rows, row)
	}
	for _, l := range log {
		if f := bySize[l.Size]; f != nil && f.Known {
			r.judge(l, f, l.OutOfPlace, false)
			r.judge(l, f, l.InPlace, true)
		}
	}
	return r
}

func (r *expectReport) judge(l testslog.Row, f *emulate.Forecast, got time.Duration, inPlace bool) {
	if got == 0 {
		return // the table has none
	}
	found := testslog.Judge(got, testslog.Given{Expected: f.Time, Spread: f.Spread, Bound: f.Bound})
	r.Log = append(r.Log, judgedTime{
		Line: l.Line, Size: l.Size, InPlace: inPlace, TimeUS: micro(got), ExpectedUS: micro(f.Time), BoundUS: micro(f.Bound), Word: found.Word, Cause: found.Cause,
	})
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (r *expectReport) print(w io.Writer) {
	fmt.Fprintf(w, "NCCL %s, %d ranks on %s\n\n", r.NCCL, r.Ranks, r.Profile)
	if r.judged {
		r.printLog(w)
		return
	}
	t := newTable(w, "size ", "count ", "algo", "proto", "channels ", "expected us ", "busbw GB/s ", "bound us ", "")
	for _, row := range r.Rows {
		channels, expected, busbw, bound := "-", "-", "-", "-"
		if row.ExpectedUS != nil {
			channels = fmt.Sprint(row.Channels)
			expected, busbw = fmt.Sprintf("%.2f", *row.ExpectedUS), fmt.Sprintf("%.2f", *row.BusBW)
		}
		if row.BoundUS > 0 {
			bound = fmt.Sprintf("%.2f", row.BoundUS)
		}
		t.AppendRow(table.Row{row.Size, row.Count, row.Algo, row.Proto, channels, expected, busbw, bound, row.Problem})
	}
	t.Render()
}

func (r *expectReport) printLog(w io.Writer) {
	t := newTable(w, "line ", "size ", "", "time us ", "expected us ", "bound us ", "judgement", "likely cause")
	for _, l := range r.Log {
		place := "out of place"
		if l.InPlace {
			place = "in place"
		}
		t.AppendRow(table.Row{l.Line, l.Size, place, fmt.Sprintf("%.2f", l.TimeUS), fmt.Sprintf("%.2f", l.ExpectedUS), fmt.Sprintf("%.2f", l.BoundUS), l.Word, l.Cause})
	}
	t.Render()
}
