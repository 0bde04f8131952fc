// SPDX-License-Identifier: Apache-2.0

package validate

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/host"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// row is a row of a size with a time out of place.
func row(size int64, took time.Duration) *testslog.Row {
	return &testslog.Row{Size: size, OutOfPlace: testslog.Half{Time: took}}
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		size               int64
		expected, emulated time.Duration
		within             bool
	}{
		{16<<20 - 4, 100, 114, true},
		{16<<20 - 4, 100, 116, false},
		{16 << 20, 100, 104, true},
		{16 << 20, 100, 106, false},
		{16 << 20, 100, 94, false},
		{16 << 20, 106, 100, true}, // the emulated time counts
		{16 << 20, 106, 0, false},  // without a run, the expected time
		{4, 0, 0, false},           // neither
	} {
		l := newLine(row(tc.size, 100*time.Microsecond), tc.expected*time.Microsecond,
			tc.emulated*time.Microsecond, 1)
		if l.Within != tc.within {
			t.Errorf("%+v: %+v", tc, l)
		}
	}
	r := Report{Lines: []Line{{Within: true}, {Size: 8}}}
	if out := r.Outside(); len(out) != 1 || out[0].Size != 8 {
		t.Errorf("outside: %+v", out)
	}
}

// Rows that this host cannot carry are named, and the report is INVALID.
func TestRefusedRows(t *testing.T) {
	table := &tables.Table{Collective: nccl.AllReduce, Ranks: 2, Rows: []testslog.Row{*row(4, 1), *row(8, 2)}}
	o := Options{Table: table, Emulate: emulate.Options{Log: io.Discard},
		Scale: func(context.Context, int64) (host.Selection, error) {
			return host.Selection{}, errors.New("too few cores")
		}}
	_, err := o.Run(t.Context())
	if !errors.Is(err, ErrNoRow) || err.Error() != "no row can be run here: 4 bytes: too few cores" {
		t.Errorf("all refused: %v", err)
	}
	r := Report{Conclusion: verdict.New(nil)}
	if err := r.refused(t.Context(), table.Rows, errors.New("too few cores")); err != nil {
		t.Fatal(err)
	}
	r.conclude()
	if len(r.LeftOut) != 2 || r.Cause != verdict.CauseHost || r.Verdict != "INVALID" || len(r.Reasons) != 1 ||
		r.Reasons[0] != "4 to 8 bytes could not be run: too few cores" {
		t.Errorf("%+v", r)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := r.refused(stopped, table.Rows, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// Each group has an equal share of what is left of the budget.
func TestGroupsShareTheBudget(t *testing.T) {
	var o Options
	if got := o.share(0, 3); got.Emulate.Budget != (emulate.Budget{}) || o.times() != (times{groupTime, longestTime}) {
		t.Errorf("without a budget: %+v, %v", got.Emulate.Budget, o.times())
	}
	o.Emulate.Budget = emulate.Budget{Total: time.Hour, End: time.Now().Add(90 * time.Second)}
	for i, want := range []time.Duration{30 * time.Second, 45 * time.Second, 90 * time.Second} {
		got := o.share(i, 3)
		if left := time.Until(got.Emulate.Budget.End); left > want || left < want-time.Second ||
			got.Emulate.Budget.Total != time.Hour {
			t.Errorf("group %d has %v, want %v", i, left, want)
		}
		if tm := got.times(); tm.group > want*2/3 || tm.group < want*2/3-time.Second || tm.longest > want {
			t.Errorf("group %d: %v", i, tm)
		}
	}
}

// Rows that were not measured are left out for a reason.
func TestMeasuredRowsOfAGroup(t *testing.T) {
	var r Report
	out := emulate.Outcome{Scale: 4,
		Result: bench.Result{Rows: []bench.Row{{Size: 8, OutOfPlace: bench.Measurement{Time: 5, Expected: 6}}}}}
	if n := r.addLines([]testslog.Row{*row(4, 1), *row(8, 2)}, out, "budget 1m"); n != 1 {
		t.Errorf("%d lines", n)
	}
	if len(r.Lines) != 1 || r.Lines[0].Size != 8 || r.Lines[0].Emulated != 0.005 || r.Lines[0].TimeScale != 4 {
		t.Errorf("%+v", r.Lines)
	}
	if len(r.LeftOut) != 1 || r.LeftOut[0] != (tables.LeftOut{Size: 4, Reason: "budget 1m"}) {
		t.Errorf("%+v", r.LeftOut)
	}
}
