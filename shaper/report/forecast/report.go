// SPDX-License-Identifier: Apache-2.0

// Package forecast reports the times that the model expects of a collective, judges logs of nccl-tests by them, and
// compares them over the values of a parameter.
package forecast

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/report/baseline"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// Report is a forecast and, if a log was given, the judgement of each of its times. Times are microseconds.
type Report struct {
	NCCL    string `json:"nccl"`
	Profile string `json:"profile"`
	InForce string `json:"in_force,omitempty"` // what the fabric has otherwise than the profile; "" if nothing
	GPU     string `json:"gpu,omitempty"`      // the kind that the fabric names
	GPUTime string `json:"gpu_time,omitempty"` // what GPUs cost in the expected times, and why nothing
	// Fabric is all that the fabric has in force.
	Fabric     configs.InForce `json:"fabric_in_force,omitzero"`
	Ranks      int             `json:"ranks"`
	Nodes      int             `json:"nodes"` // that have ranks
	Collective string          `json:"collective"`
	Iters      int             `json:"iters"` // calls back to back, of which the expected time is the mean
	Root       int             `json:"root"`  // of collectives that have one
	Seed       uint64          `json:"seed"`  // of the random draws
	Rows       []ReportRow     `json:"rows"`
	Log        []JudgedTime    `json:"log,omitempty"`
	Slow       []SlowRange     `json:"slow,omitempty"`       // sizes of the log that take too long, the worst first
	Fixed      *FixedCost      `json:"fixed_cost,omitempty"` // null without a log, and if the log shows none
	NodeTime   string          `json:"node_time,omitempty"`  // the kind of GPU whose time is in the expected times
	// of the log: its fixed cost, its bandwidth, what to look at
	Summary []string        `json:"summary,omitempty"`
	Cut     []testslog.Line `json:"left_out,omitempty"`
	Odd     []testslog.Line `json:"not_understood,omitempty"` // rows that are none
	// OutOfBounds is how many values of the log are wrong in all, which its rows may not say.
	OutOfBounds int64    `json:"out_of_bounds,omitempty"`
	Notes       []string `json:"notes,omitempty"`
	NotIn       []string `json:"not_in_numbers,omitempty"` // what the times lack of a real run
	Verdict     string   `json:"verdict,omitempty"`        // incomplete if the calculation was interrupted
	// Baseline is the comparison with an earlier calculation; nil if there is none.
	Baseline *baseline.Comparison `json:"baseline,omitempty"`
	HasLog   bool                 `json:"-"`
	Ahead    bool                 `json:"-"` // the mean of some row is below its bound

	collective nccl.Collective
	explained  int // slower times of the log that a fixed cost explains
	small      testslog.Small
}

// FixedCost is what each call of the log takes beyond the network.
type FixedCost struct {
	US    float64 `json:"us"`
	Times int     `json:"times"` // of the log, from which it was taken
	UpTo  int64   `json:"up_to"` // largest of their sizes in bytes
}

// ReportRow is the forecast of one row.
type ReportRow struct {
	Size     int64  `json:"size"`
	Count    int64  `json:"count"`
	Type     string `json:"type"`
	RedOp    string `json:"redop"` // none if nothing is reduced
	Algo     string `json:"algo"`
	Proto    string `json:"proto"`
	Channels int    `json:"channels"` // that the call uses; 0 if not known
	// Interval is how far healthy clusters are from the expected time; null without the time of nodes.
	Interval   *intervals.Interval `json:"interval,omitempty"`
	ExpectedUS *float64            `json:"expected_us"` // the mean over ranks; null if not known: then problem says why
	BusBW      *float64            `json:"busbw_gbs"`   // null also if the call takes no time
	LastUS     *float64            `json:"last_rank_us"`
	BusiestUS  *float64            `json:"busiest_hop_us"` // 0 if links have no rate
	// Busiest is the hop of that time; null if links have no rate, and if no message crosses any.
	Busiest *bench.BusyHop `json:"busiest_hop,omitempty"`
	BoundUS float64        `json:"bound_us"` // of the last rank; 0 if links have no rate
	Problem string         `json:"problem,omitempty"`
	Seeds   *Seeded        `json:"seeds,omitempty"`
	Parts   *Parts         `json:"parts,omitempty"` // where the time goes, if that is asked for
	// the one that chooses on the real cluster, in place of NCCL; ddlemu does not have it
	Tuner string       `json:"tuner,omitempty"`
	Limit *bench.Limit `json:"limit,omitempty"` // null if nothing is known to limit the call
}

// Seeded are the expected times with several seeds.
type Seeded struct {
	First   uint64    `json:"first"` // the seed of the first time; the others follow it
	TimesUS []float64 `json:"times_us"`
	Text    string    `json:"text"`
}

// JudgedTime is one time of the log.
type JudgedTime struct {
	Line       int     `json:"line"`
	Size       int64   `json:"size"`
	InPlace    bool    `json:"inplace"`
	Algo       string  `json:"algo"` // of NCCL here, as in ReportRow; the log does not have it
	Proto      string  `json:"proto"`
	Channels   int     `json:"channels"` // 0 if not known
	TimeUS     float64 `json:"time_us"`
	BusBW      float64 `json:"busbw_gbs"`   // of the log
	ExpectedUS float64 `json:"expected_us"` // of the model; this and the next are 0 if not known
	LastUS     float64 `json:"last_rank_us"`
	WithFixed  float64 `json:"with_fixed_us"` // ExpectedUS with the fixed cost, which is 0 with the time of nodes
	BoundUS    float64 `json:"bound_us"`
	// LowUS and HighUS are the interval in which the times of healthy clusters are; 0 without the time of nodes, and if
	// nothing is expected.
	LowUS  float64       `json:"low_us,omitempty"`
	HighUS float64       `json:"high_us,omitempty"`
	Limit  *bench.Limit  `json:"limit,omitempty"`
	Word   testslog.Word `json:"judgement"`
	Cause  string        `json:"cause,omitempty"`
}

// NewReport reports rows, and judges log by them if it is not nil.
func NewReport(rows []emulate.Forecast, ranks int, log *tables.Table) *Report {
	r := &Report{Ranks: ranks, Rows: []ReportRow{}, HasLog: log != nil}
	byCall := map[loggedCall]*emulate.Forecast{}
	for i := range rows {
		f := &rows[i]
		byCall[loggedCall{f.Case.Size, f.Case.Op}] = f
		r.Rows = append(r.Rows, rowOf(f))
		r.Ahead = r.Ahead || f.Known && f.Time < f.Bound
		r.NodeTime = f.NodeTime
	}
	if log == nil {
		return r
	}
	if len(rows) > 0 {
		r.collective = rows[0].Case.Collective
	}
	r.judgeLog(log, rows, byCall)
	r.Cut, r.Odd, r.OutOfBounds, r.Notes = log.Log.Cut, log.Log.Odd, log.Log.OutOfBounds, log.Notes()
	r.Summary = r.summary()
	return r
}

// loggedCall identifies a call of a log, whose rows all have one type.
type loggedCall struct {
	size int64
	op   nccl.RedOp
}

func rowOf(f *emulate.Forecast) ReportRow {
	row := ReportRow{Size: f.Case.Size, Count: f.Case.Count, Type: f.Case.Type.String(), RedOp: "none",
		BoundUS: units.Microseconds(f.Bound), Problem: f.Problem, Tuner: f.Tuner}
	if f.Case.Collective.Reduces() {
		row.RedOp = f.Case.Op.String()
	}
	if s := f.Seeds; s != nil {
		row.Seeds = &Seeded{First: s.First, Text: s.String()}
		for _, t := range s.Times {
			row.Seeds.TimesUS = append(row.Seeds.TimesUS, units.Microseconds(t))
		}
	}
	if f.Case.Decision != nil {
		row.Algo, row.Proto = f.Case.Decision.Algo, f.Case.Decision.Proto
	}
	if f.Known {
		us, last, busiest := units.Microseconds(f.Time), units.Microseconds(f.LastRank),
			units.Microseconds(f.BusiestHop)
		row.ExpectedUS, row.LastUS, row.BusiestUS, row.Channels = &us, &last, &busiest, f.Channels
		if f.Busiest.Name != "" {
			row.Busiest = &f.Busiest
		}
		if f.Limit.By != "" {
			row.Limit = &f.Limit
		}
		if f.Interval.Known() {
			row.Interval = &f.Interval
		}
		if f.Time > 0 {
			row.BusBW = new(float64(f.Case.Size) * f.Case.Collective.PortFactor(f.Case.Ranks) / float64(f.Time))
		}
	}
	return row
}

// namedHops is for how many rows of a table the busiest hop of each is named.
const namedHops = 3

// Busiest are the rows whose busiest hop is worth a line: all if there are few of them, else the largest. Rows whose
// busiest hop is not known are left out.
func (r *Report) Busiest() []*ReportRow {
	var known []*ReportRow
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Busiest != nil {
			known = append(known, row)
		}
	}
	if len(r.Rows) <= namedHops || len(known) == 0 {
		return known
	}
	largest := known[0]
	for _, row := range known {
		if row.Size >= largest.Size {
			largest = row
		}
	}
	return []*ReportRow{largest}
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
	if len(r.Odd) > 0 {
		failures = append(failures, units.Count(len(r.Odd), "row")+" not understood")
	}
	if r.OutOfBounds > 0 {
		failures = append(failures, units.Count(int(r.OutOfBounds), "value")+" out of bounds")
	}
	return strings.Join(failures, ", ")
}
