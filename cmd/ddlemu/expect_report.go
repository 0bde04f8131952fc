// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/bench/emulate"
	"github.com/ddlemu/ddlemu/shaper/bench/testslog"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// expectReport is what expect --json prints. Times are microseconds.
type expectReport struct {
	NCCL    string       `json:"nccl"`
	Profile string       `json:"profile"`
	Ranks   int          `json:"ranks"`
	Rows    []expectRow  `json:"rows"`
	Log     []judgedTime `json:"log,omitempty"`
	LeftOut []leftOut    `json:"left_out,omitempty"` // of the log
	Notes   []string     `json:"notes,omitempty"`    // what to know of the figures
	judged  bool
	ahead   bool // the mean of some row is below its bound
}

type expectRow struct {
	Size       int64    `json:"size"`
	Count      int64    `json:"count"`
	Type       string   `json:"type"`
	RedOp      string   `json:"redop"` // none where nothing is reduced
	Algo       string   `json:"algo"`
	Proto      string   `json:"proto"`
	Channels   int      `json:"channels"`    // that the call uses; 0 if not known
	ExpectedUS *float64 `json:"expected_us"` // the mean over ranks; null if not known: then problem says why
	BusBW      *float64 `json:"busbw_gbs"`   // null also where the call takes no time
	LastUS     *float64 `json:"last_rank_us"`
	BusiestUS  *float64 `json:"busiest_hop_us"` // 0 where links have no rate
	BoundUS    float64  `json:"bound_us"`       // of the last rank; 0 where links have no rate
	Problem    string   `json:"problem,omitempty"`
}

// judgedTime is one time of the log.
type judgedTime struct {
	Line       int           `json:"line"`
	Size       int64         `json:"size"`
	InPlace    bool          `json:"inplace"`
	TimeUS     float64       `json:"time_us"`
	ExpectedUS float64       `json:"expected_us"`  // this and the next 0 if not known
	LastUS     float64       `json:"last_rank_us"` // in the model
	BoundUS    float64       `json:"bound_us"`
	Word       testslog.Word `json:"judgement"`
	Cause      string        `json:"cause,omitempty"`
}

// leftOut is a row of the log that was cut, or the rest of one.
type leftOut struct {
	Line int    `json:"line"`
	What string `json:"what"`
}

// newExpectReport judges log, if it is not nil, by rows.
func newExpectReport(nccl, profile string, ranks int, rows []emulate.Forecast, log *testslog.Log) *expectReport {
	r := &expectReport{NCCL: nccl, Profile: profile, Ranks: ranks, Rows: []expectRow{}, judged: log != nil}
	byCall := map[loggedCall]*emulate.Forecast{}
	for i := range rows {
		f := &rows[i]
		byCall[loggedCall{f.Case.Size, f.Case.Op}] = f
		r.Rows = append(r.Rows, newExpectRow(f))
		r.ahead = r.ahead || f.Known && f.Time < f.Bound
	}
	if log == nil {
		return r
	}
	for _, l := range log.Rows {
		var f *emulate.Forecast
		if op, err := l.RedOp(); err == nil { // readLog has refused others
			f = byCall[loggedCall{l.Size, op}]
		}
		r.judge(l, f, &l.OutOfPlace, false)
		if l.InPlace != nil {
			r.judge(l, f, l.InPlace, true)
		}
	}
	for _, l := range log.LeftOut {
		r.LeftOut = append(r.LeftOut, leftOut{l.Line, l.What})
	}
	return r
}

// loggedCall is what the calls of a log differ in: its rows have one type.
type loggedCall struct {
	size int64
	op   nccl.RedOp
}

func newExpectRow(f *emulate.Forecast) expectRow {
	row := expectRow{Size: f.Case.Size, Count: f.Case.Count, Type: f.Case.Type.String(), RedOp: "none", BoundUS: micro(f.Bound), Problem: f.Problem}
	if f.Case.Collective.Reduces() {
		row.RedOp = f.Case.Op.String()
	}
	if f.Case.Choice != nil {
		row.Algo, row.Proto = f.Case.Choice.Algo, f.Case.Choice.Proto
	}
	if f.Known {
		us, last, busiest := micro(f.Time), micro(f.LastRank), micro(f.BusiestHop)
		row.ExpectedUS, row.LastUS, row.BusiestUS, row.Channels = &us, &last, &busiest, f.Channels
		if f.Time > 0 {
			busbw := float64(f.Case.Size) * f.Case.Collective.BusFactor(f.Case.Ranks) / float64(f.Time)
			row.BusBW = &busbw
		}
	}
	return row
}

// judge adds what to think of one half of a row. f is nil if no call has its size.
func (r *expectReport) judge(l testslog.Row, f *emulate.Forecast, half *testslog.Half, inPlace bool) {
	j := judgedTime{Line: l.Line, Size: l.Size, InPlace: inPlace, TimeUS: micro(half.Time)}
	switch {
	case f == nil:
		j.Word, j.Cause = testslog.NotJudged, fmt.Sprintf("no call of %d ranks has this size", r.Ranks)
	case !f.Known:
		j.Word, j.Cause, j.BoundUS = testslog.NotJudged, f.Problem, micro(f.Bound)
	default:
		j.ExpectedUS, j.LastUS, j.BoundUS = micro(f.Time), micro(f.LastRank), micro(f.Bound)
		found := half.Check(l.Size, f.Case.Collective.BusFactor(f.Case.Ranks))
		if found.Word == testslog.AsExpected {
			found = testslog.Judge(half.Time, testslog.Given{
				Expected: f.Time, LastRank: f.LastRank, Spread: f.Spread, BusiestHop: f.BusiestHop, Bound: f.Bound, Least: f.Least(),
			})
		}
		j.Word, j.Cause = found.Word, found.Cause
	}
	r.Log = append(r.Log, j)
}

// bad counts what of the log does not speak for the fabric, in words; "" if nothing.
func (r *expectReport) bad() string {
	var parts []string
	n := 0
	for _, j := range r.Log {
		if !j.Word.Good() {
			n++
		}
	}
	if n > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s not as expected", n, units.Count(len(r.Log), "time")))
	}
	if len(r.LeftOut) > 0 {
		parts = append(parts, units.Count(len(r.LeftOut), "row")+" cut")
	}
	return strings.Join(parts, ", ")
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (r *expectReport) print(w io.Writer) {
	fmt.Fprintf(w, "NCCL %s, %d ranks on %s\n\n", r.NCCL, r.Ranks, r.Profile)
	if r.judged {
		r.printLog(w)
	} else {
		r.printRows(w)
	}
	if r.ahead {
		fmt.Fprint(w, "\nexpected is the mean over the ranks, as nccl-tests has it, and bound is of the last rank:\nothers are done as soon as what they send is in the buffers on the way.\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", note)
	}
}

func (r *expectReport) printRows(w io.Writer) {
	t := newTable(w, "size ", "count ", "algo", "proto", "channels ", "expected us ", "busbw GB/s ", "last rank us ", "busiest hop us ", "bound us ", "")
	for _, row := range r.Rows {
		channels := "-"
		if row.ExpectedUS != nil {
			channels = fmt.Sprint(row.Channels)
		}
		t.AppendRow(table.Row{
			row.Size, row.Count, row.Algo, row.Proto, channels, us(value(row.ExpectedUS)), known(row.BusBW), us(value(row.LastUS)), us(value(row.BusiestUS)), us(row.BoundUS), row.Problem,
		})
	}
	t.Render()
}

// known is a number with two decimals, - for none.
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

func (r *expectReport) printLog(w io.Writer) {
	t := newTable(w, "line ", "size ", "", "time us ", "expected us ", "last rank us ", "bound us ", "judgement", "likely cause")
	for _, l := range r.Log {
		place := "out of place"
		if l.InPlace {
			place = "in place"
		}
		t.AppendRow(table.Row{l.Line, l.Size, place, fmt.Sprintf("%.2f", l.TimeUS), us(l.ExpectedUS), us(l.LastUS), us(l.BoundUS), l.Word, l.Cause})
	}
	t.Render()
	if len(r.LeftOut) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s cut:\n", units.Count(len(r.LeftOut), "row"))
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "line %d: %s\n", l.Line, l.What)
	}
}
