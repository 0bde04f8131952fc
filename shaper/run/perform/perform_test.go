// SPDX-License-Identifier: Apache-2.0

package perform

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// ring is a ring of 4 GPUs, each a node of its own.
func ring(t *testing.T, coll schedule.Collective) (*schedule.Schedule, *model.Place) {
	t.Helper()
	c, err := configs.Profile("ndr400")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes = 4
	fab, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mk.Ring(mk.Options{Coll: coll, GPUs: 4, K: 1})
	if err != nil {
		t.Fatal(err)
	}
	place, err := model.NewPlace(fab, 4)
	if err != nil {
		t.Fatal(err)
	}
	return s, place
}

// player is a player whose calls all take 8 us; 2 elements of each row are wrong.
type player struct {
	plays int
	err   func(plays int) error
}

func (p *player) Play(_ context.Context, _ *schedule.Schedule, _ *schedule.Cut, _ bool, row *Row) (string, error) {
	p.plays++
	row.SetTimes([]time.Duration{16 * time.Microsecond, 48 * time.Microsecond}, 4)
	row.Expected = 10
	row.SetDiff()
	row.Wrong = new(uint64(2))
	if p.err != nil {
		return "", p.err(p.plays)
	}
	return "", nil
}

func (p *player) Verdict() (verdict.Verdict, bool) { return verdict.New(nil), true }

func TestRun(t *testing.T) {
	s, place := ring(t, schedule.AllGather)
	s.InPlace, s.OutOfPlace, s.MinBytes, s.MaxBytes = true, true, 100, 2000
	r, err := Run(t.Context(), "x.xml", s, place, []int64{1, 64, 1024, 1026}, &player{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 4 || r.Rows[0].Place != "out of place" || r.Rows[1].Place != "in place" ||
		r.Rows[3].Size != 1024 || r.Wrong() != 8 {
		t.Fatalf("%+v", r)
	}
	// A rank's share of 1024 bytes is 64 elements. 1024 bytes in 8 us are 0.128 GB/s, of which 3/4 cross the bus.
	last := r.Rows[3]
	if last.Count != 64 || last.Avg != 8 || last.Min != 4 || math.Abs(*last.Diff+20) > 1e-9 ||
		math.Abs(last.Busbw-0.096) > 1e-9 || last.Bound <= 0 {
		t.Errorf("%+v, diff %v", last, *last.Diff)
	}
	if len(r.Notes) != 2 || !strings.HasPrefix(r.Notes[0], "1 bytes are too few") ||
		r.Notes[1] != "MSCCL would not use the schedule for 64 bytes: it is for 100 to 2000" {
		t.Errorf("%q", r.Notes)
	}
	if r.Verdict != "VALID" || r.Judged == nil || r.Schedule != "x.xml" || r.GPUs != 4 || r.Coll != "allgather" {
		t.Errorf("%+v", r)
	}
}

// What was interrupted has the rows so far; another failure has no report.
func TestRunEndsEarly(t *testing.T) {
	s, place := ring(t, schedule.AllReduce)
	ctx, stop := context.WithCancel(t.Context())
	r, err := Run(ctx, "x.xml", s, place, []int64{1024, 2048}, &player{err: func(plays int) error {
		if plays == 3 {
			stop()
		}
		return ctx.Err()
	}})
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "2048 bytes ") || len(r.Rows) != 2 ||
		r.Verdict != verdict.Incomplete {
		t.Errorf("%v, %+v", err, r)
	}
	broken := errors.New("broken")
	r, err = Run(t.Context(), "x.xml", s, place, []int64{1024}, &player{err: func(int) error { return broken }})
	if !errors.Is(err, broken) || r != nil {
		t.Errorf("%v, %+v", err, r)
	}
	if r, err = Run(t.Context(), "x.xml", s, place, []int64{1}, &player{}); !configs.IsUserError(err) || r != nil {
		t.Errorf("%v, %+v", err, r)
	}
}

// The model has the times of the calls behind the first, no differences and no verdict.
func TestModel(t *testing.T) {
	s, place := ring(t, schedule.AllReduce)
	on, err := place.Expect()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), "ring", s, place, []int64{1 << 20}, &Model{On: on, Calls: 3})
	if err != nil {
		t.Fatal(err)
	}
	cut, err := s.Cut(1<<20, elem)
	if err != nil {
		t.Fatal(err)
	}
	want, err := model.Play(t.Context(), s, &cut, on, 4)
	if err != nil {
		t.Fatal(err)
	}
	mean := float64(want.Times[1]+want.Times[2]+want.Times[3]) / 3e3
	if row := r.Rows[0]; math.Abs(row.Avg-mean) > 1e-9 || row.Expected != row.Avg || row.Avg < row.Bound ||
		row.Diff != nil || row.Wrong != nil || len(row.Loads) != len(want.Loads) {
		t.Errorf("%+v, want %g", row, mean)
	}
	if r.Judged != nil || r.Verdict != "" {
		t.Errorf("%+v", r)
	}
}

// With several runs of NCCL the first verdict that is not VALID counts, else the last.
func TestVerdictOfP2P(t *testing.T) {
	invalid := func(text string) verdict.Verdict {
		v := verdict.New(nil)
		v.Valid, v.Word = false, text
		return v
	}
	valid := verdict.New(nil)
	p := &P2P{}
	if _, known := p.Verdict(); known {
		t.Error("a verdict on nothing")
	}
	p.verdicts = []verdict.Verdict{valid, valid}
	if v, known := p.Verdict(); !known || !v.Valid {
		t.Errorf("%+v", v)
	}
	p.verdicts = []verdict.Verdict{valid, invalid("first"), valid, invalid("second")}
	if v, known := p.Verdict(); !known || v.Word != "first" {
		t.Errorf("%+v", v)
	}
}
