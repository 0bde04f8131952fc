// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/bench/internal/testslog"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Report is a forecast and, if a log was given, the judgement of each of its times. Times are microseconds.
type Report struct {
	NCCL    string            `json:"nccl"`
	Profile string            `json:"profile"`
	Ranks   int               `json:"ranks"`
	Rows    []ReportRow       `json:"rows"`
	Log     []JudgedTime      `json:"log,omitempty"`
	Cut     []testslog.CutRow `json:"left_out,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
	HasLog  bool              `json:"-"`
	Ahead   bool              `json:"-"` // the mean of some row is below its bound
}

// ReportRow is the forecast of one row.
type ReportRow struct {
	Size       int64    `json:"size"`
	Count      int64    `json:"count"`
	Type       string   `json:"type"`
	RedOp      string   `json:"redop"` // none if nothing is reduced
	Algo       string   `json:"algo"`
	Proto      string   `json:"proto"`
	Channels   int      `json:"channels"`    // that the call uses; 0 if not known
	ExpectedUS *float64 `json:"expected_us"` // the mean over ranks; null if not known: then problem says why
	BusBW      *float64 `json:"busbw_gbs"`   // null also if the call takes no time
	LastUS     *float64 `json:"last_rank_us"`
	BusiestUS  *float64 `json:"busiest_hop_us"` // 0 if links have no rate
	BoundUS    float64  `json:"bound_us"`       // of the last rank; 0 if links have no rate
	Problem    string   `json:"problem,omitempty"`
}

// JudgedTime is one time of the log.
type JudgedTime struct {
	Line       int           `json:"line"`
	Size       int64         `json:"size"`
	InPlace    bool          `json:"inplace"`
	TimeUS     float64       `json:"time_us"`
	ExpectedUS float64       `json:"expected_us"`  // this and the next are 0 if not known
	LastUS     float64       `json:"last_rank_us"` // in the model
	BoundUS    float64       `json:"bound_us"`
	Word       testslog.Word `json:"judgement"`
	Cause      string        `json:"cause,omitempty"`
}

// NewReport reports rows, and judges log by them if it is not nil.
func NewReport(rows []Forecast, ranks int, log *Log) *Report {
	r := &Report{Ranks: ranks, Rows: []ReportRow{}, HasLog: log != nil}
	byCall := map[loggedCall]*Forecast{}
	for i := range rows {
		f := &rows[i]
		byCall[loggedCall{f.Case.Size, f.Case.Op}] = f
		r.Rows = append(r.Rows, f.row())
		r.Ahead = r.Ahead || f.Known && f.Time < f.Bound
	}
	if log == nil {
		return r
	}
	for _, l := range log.table.Rows {
		var f *Forecast
		if op, err := l.RedOp(); err == nil { // Configure refuses other operators
			f = byCall[loggedCall{l.Size, op}]
		}
		r.judge(l, f, &l.OutOfPlace, false)
		if l.InPlace != nil {
			r.judge(l, f, l.InPlace, true)
		}
	}
	r.Cut = log.table.Cut
	return r
}

// loggedCall identifies a call of a log, whose rows all have one type.
type loggedCall struct {
	size int64
	op   nccl.RedOp
}

func (f *Forecast) row() ReportRow {
	row := ReportRow{Size: f.Case.Size, Count: f.Case.Count, Type: f.Case.Type.String(), RedOp: "none", BoundUS: units.Microseconds(f.Bound), Problem: f.Problem}
	if f.Case.Collective.Reduces() {
		row.RedOp = f.Case.Op.String()
	}
	if f.Case.Decision != nil {
		row.Algo, row.Proto = f.Case.Decision.Algo, f.Case.Decision.Proto
	}
	if f.Known {
		us, last, busiest := units.Microseconds(f.Time), units.Microseconds(f.LastRank), units.Microseconds(f.BusiestHop)
		row.ExpectedUS, row.LastUS, row.BusiestUS, row.Channels = &us, &last, &busiest, f.Channels
		if f.Time > 0 {
			busbw := float64(f.Case.Size) * f.Case.Collective.BusFactor(f.Case.Ranks) / float64(f.Time)
			row.BusBW = &busbw
		}
	}
	return row
}

// judge adds the judgement of one half of a row. f is nil if no forecast has the row's size and operator.
func (r *Report) judge(l testslog.Row, f *Forecast, half *testslog.Half, inPlace bool) {
	j := JudgedTime{Line: l.Line, Size: l.Size, InPlace: inPlace, TimeUS: units.Microseconds(half.Time)}
	switch {
	case f == nil:
		j.Word, j.Cause = testslog.NotJudged, fmt.Sprintf("no call of %d ranks has this size", r.Ranks)
	case !f.Known:
		j.Word, j.Cause, j.BoundUS = testslog.NotJudged, f.Problem, units.Microseconds(f.Bound)
	default:
		j.ExpectedUS, j.LastUS, j.BoundUS = units.Microseconds(f.Time), units.Microseconds(f.LastRank), units.Microseconds(f.Bound)
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

// Failure says how much of the log is not as expected or cut, "" if nothing is.
func (r *Report) Failure() string {
	var failures []string
	n := 0
	for _, j := range r.Log {
		if !j.Word.Good() {
			n++
		}
	}
	if n > 0 {
		failures = append(failures, fmt.Sprintf("%d of %s not as expected", n, units.Count(len(r.Log), "time")))
	}
	if len(r.Cut) > 0 {
		failures = append(failures, units.Count(len(r.Cut), "row")+" cut")
	}
	return strings.Join(failures, ", ")
}
