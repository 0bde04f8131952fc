// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/job"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/live"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Forecast is what a fabric should give for one row.
type Forecast struct {
	Case bench.Case // with NCCL's decisions
	// Known says whether Expectation is known; if not, Problem says why.
	Known bool
	bench.Expectation
	Problem string
	// Bound is what the bytes alone take that must cross between a node and the
	// others, whatever the schedule, until the last rank is done. 0 where links have no
	// rate.
	Bound time.Duration
	// Waiting is the share of the ranks that cannot be done before that, whatever the
	// schedule.
	Waiting float64
}

// Least is what the mean over the ranks can be at least, and that is what nccl-tests
// prints: ranks that need not wait for the bytes of Bound may run ahead, and so may
// those that do in the model of NCCL's schedule.
func (f *Forecast) Least() time.Duration {
	share := f.Waiting
	if f.Known && f.LastRank > 0 {
		share = min(share, float64(f.Time)/float64(f.LastRank))
	}
	return time.Duration(share * float64(f.Bound))
}

// DecideUpTo is the largest size that NCCL is made to run for its decision unless
// Options say otherwise.
const DecideUpTo = 64 << 20

// Expect asks real NCCL what it decides on the fabric for each row of o.Bench, and
// the model what that takes. NCCL sees the fabric's NICs as they are shaped now, but once
// it has, nothing is shaped, so that nobody waits.
func Expect(ctx context.Context, o Options) ([]Forecast, bench.Info, error) {
	asked, err := o.asked()
	if err != nil {
		return nil, bench.Info{}, err
	}
	j, err := job.StartFree(ctx, o.Dir, o.own(asked), "bench")
	if err != nil {
		return nil, bench.Info{}, err
	}
	defer func() { _ = j.Close() }() // what it held is removed by gc if this fails
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cfg := o.ranksOn(j)
	// NCCL has asked the NICs for their speed and latency by then, and decides by that.
	cfg.OnStart = func(bench.Info) {
		if err := unshape(o.Dir, j.Name()); err != nil {
			stop(err)
		}
	}
	cfg.Iters, cfg.Warmup, cfg.Check, cfg.Cycles = 1, 1, false, 1
	cfg.Sizes = nil
	most := o.decideUpTo()
	for _, size := range o.Bench.Sizes {
		if size = min(size, most); len(cfg.Sizes) == 0 || size != cfg.Sizes[len(cfg.Sizes)-1] {
			cfg.Sizes = append(cfg.Sizes, size)
		}
	}
	var decided []bench.Case
	cfg.Expected = func(c bench.Case) (bench.Expectation, bool) {
		if !c.InPlace {
			decided = append(decided, c)
		}
		return bench.Expectation{}, false
	}
	result, err := bench.Run(ctx, cfg, nil)
	if err != nil {
		return nil, bench.Info{}, err
	}
	all, err := o.forecasts(ctx, asked, decided)
	return all, result.Info, err
}

func (o *Options) decideUpTo() int64 { return cmp.Or(o.DecideUpTo, DecideUpTo) }

// asked is the fabric that the forecast is for: the one that is up, as it is shaped
// now, or a new one.
func (o *Options) asked() (*fabric.Fabric, error) {
	if o.Shared == "" {
		return fabric.New(&o.Config)
	}
	f, err := o.Dir.Open(o.Shared)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return live.Fabric(f)
}

// own is a fabric for this run alone with asked's NICs and what is in force on its
// links: it is not for us to take off what shapes others.
func (o *Options) own(asked *fabric.Fabric) *fabric.Fabric {
	f := *asked
	f.Config.TimeScale = 1
	f.Config.GPUsPerNode = o.gpus(&f.Config)
	return &f
}

// unshape takes everything off all hops of a fabric, those between switches too, which
// no pattern for all links names.
func unshape(dir *state.Dir, name string) error {
	f, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	specs := map[int]link.Spec{}
	for _, h := range f.Hops() {
		s := h.Spec
		s.Bandwidth, s.Latency, s.Jitter, s.Loss, s.Down = uint64(units.Unlimited), 0, link.Jitter{}, link.Loss{}, false
		specs[h.Index] = s
	}
	return f.Change(specs)
}

// forecasts works out each row that was asked for, from what NCCL decided on its call
// or on the largest one that it ran of that type and operator.
func (o *Options) forecasts(ctx context.Context, f *fabric.Fabric, decided []bench.Case) ([]Forecast, error) {
	times := expected.New(f, o.node(f), os.Getenv)
	rows := o.Bench
	rows.Cycles = 1
	var all []Forecast
	for _, c := range rows.Cases() {
		d, err := decisionOn(decided, c, o.decideUpTo())
		if err != nil {
			return nil, err
		}
		c.NCCL, c.Decision, c.Topology, c.NICs = d.NCCL, d.Decision, d.Topology, d.NICs
		row := Forecast{Case: c, Bound: times.Bound(c), Waiting: times.Waiting(c)}
		if row.Expectation, row.Known = times.Of(ctx, c); !row.Known {
			row.Problem = times.Problem
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, nil
}

// decisionOn finds the call that NCCL ran for its decision on c, of most bytes at most.
func decisionOn(decided []bench.Case, c bench.Case, most int64) (bench.Case, error) {
	size := c.Collective.Counts(min(c.Size, most), c.Type, c.Ranks).Bytes(c.Type)
	for _, d := range decided {
		if d.Collective == c.Collective && d.Type == c.Type && d.Op == c.Op && d.Root == c.Root && d.Size == size {
			return d, nil
		}
	}
	return bench.Case{}, fmt.Errorf("NCCL decided nothing for %v of %d bytes, %v, %v: it ran other calls than those asked for", c.Collective, size, c.Type, c.Op)
}
