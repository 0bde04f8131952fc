// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// The probe that may raise the time scale takes a part of a budget, and leaves the rest to the rows.
func TestProbeWithinABudget(t *testing.T) {
	c, err := configs.Profile("eth1")
	if err != nil {
		t.Fatal(err)
	}
	c.TimeScale = 4
	failed := errors.New("a rank died")
	slow := func(ctx context.Context, _ *Options) (Outcome, error) {
		<-ctx.Done()
		return Outcome{}, context.Cause(ctx)
	}
	// At time scale 4 a row 8 % above its expected time needs 16.
	quick := func(context.Context, *Options) (Outcome, error) {
		half := bench.Measurement{Known: true, Diff: 8}
		return Outcome{Scale: 4, Result: bench.Result{Rows: []bench.Row{{OutOfPlace: half}}}}, nil
	}
	for _, tc := range []struct {
		name   string
		size   int64
		budget time.Duration
		run    func(context.Context, *Options) (Outcome, error)
		scale  int
		err    error
	}{
		{"no budget", 8, 0, quick, 16, nil},
		{"quick enough", 8, time.Hour, quick, 16, nil},
		{"predicted to take too long", 64 << 20, 10 * time.Second,
			func(context.Context, *Options) (Outcome, error) { return Outcome{}, failed }, 4, nil},
		{"takes too long", 8, 200 * time.Millisecond, slow, 4, nil},
		{"fails", 8, time.Hour, func(context.Context, *Options) (Outcome, error) { return Outcome{}, failed }, 4,
			failed},
	} {
		o := Options{Config: *c, Bench: bench.Config{Collective: nccl.AllReduce, Ranks: 2, Sizes: []int64{tc.size}},
			Budget: Budget{Total: tc.budget, End: time.Now().Add(tc.budget)}}
		ctx, stop := o.Budget.Limit(t.Context())
		why := ""
		err := o.probe(ctx, &why, tc.run)
		if stop(); !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) || o.Config.TimeScale != tc.scale ||
			(why != "") != (tc.scale == 16) {
			t.Errorf("%s: time scale %d (%q), %v; want %d, %v", tc.name, o.Config.TimeScale, why, err, tc.scale, tc.err)
		}
	}
	o := Options{Config: *c, Bench: bench.Config{Collective: nccl.AllReduce, Ranks: 2, Sizes: []int64{8}},
		Budget: Budget{Total: time.Hour, End: time.Now().Add(time.Hour)}}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if err := o.probe(ctx, new(string), slow); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
