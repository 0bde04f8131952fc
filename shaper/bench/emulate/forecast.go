// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/job"
	"github.com/ddlemu/ddlemu/shaper/live"
)

// Forecast is the expectation for one row.
type Forecast struct {
	Case bench.Case // with NCCL's decisions
	// Known says whether Expectation is known. If not, Problem says why.
	Known bool
	bench.Expectation
	Problem string
	// Bound is a lower bound of the time until the last rank is done, for any schedule: the time of the bytes that must
	// cross between a node and the others. 0 if links have no rate.
	Bound time.Duration
	// Waiting is the fraction of the ranks that cannot be done before Bound, for any schedule.
	Waiting float64
}

// Least is a lower bound of the mean over the ranks, which nccl-tests prints. Ranks that need not wait for the bytes of
// Bound may run ahead, and so may those that do in the model of NCCL's schedule.
func (f *Forecast) Least() time.Duration {
	share := f.Waiting
	if f.Known && f.LastRank > 0 {
		share = min(share, float64(f.Time)/float64(f.LastRank))
	}
	return time.Duration(share * float64(f.Bound))
}

// DecideUpTo is the default of Options.DecideUpTo in bytes.
const DecideUpTo = 64 << 20

// Expect runs real NCCL for its decision on each row of o.Bench, and returns the model's expectations. NCCL reads the
// fabric's NICs with their present parameters. After that its own links are unlimited, so that the run is short.
func Expect(ctx context.Context, o Options) ([]Forecast, bench.Info, error) {
	o.ChooseClock() // as the run whose times are asked for would
	asked, err := o.askedFabric()
	if err != nil {
		return nil, bench.Info{}, err
	}
	j, err := job.StartFree(ctx, o.Dir, o.privateCopy(asked), "bench")
	if err != nil {
		return nil, bench.Info{}, err
	}
	defer func() { _ = j.Close() }() // if this fails, gc removes the fabric
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cfg := o.ranksOn(j)
	// By then NCCL has read the speed and latency of the NICs, by which it decides.
	cfg.OnStart = func(bench.Info) {
		if err := j.RemoveLimits(); err != nil {
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
	cfg.Planner = (&Options{Bench: cfg, Progress: o.within("NCCL decides")}).newPacer(0)
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

// askedFabric returns the fabric of the forecast: the shared one with its present parameters, or a new one.
func (o *Options) askedFabric() (*fabric.Fabric, error) {
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

// privateCopy is a copy of the asked fabric for this run alone. Leave the links of the asked fabric alone: other jobs
// use them.
func (o *Options) privateCopy(asked *fabric.Fabric) *fabric.Fabric {
	f := *asked
	f.Config.TimeScale, f.Config.Clock = 1, configs.RealClock
	f.Config.GPUsPerNode = o.gpus(&f.Config)
	return &f
}

// forecasts calculates each row from NCCL's decision on its call, or on the largest call of the same type and operator
// that NCCL ran.
func (o *Options) forecasts(ctx context.Context, f *fabric.Fabric, decided []bench.Case) ([]Forecast, error) {
	times := expected.New(f, o.node(f), os.Getenv)
	rows := o.Bench
	rows.Cycles = 1
	var all []Forecast
	cases := rows.Cases()
	for i, c := range cases {
		o.progress(fmt.Sprintf("row %d of %d is calculated", i+1, len(cases)))
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

// decisionOn returns the call that NCCL ran for its decision on c, with at most most bytes.
func decisionOn(decided []bench.Case, c bench.Case, most int64) (bench.Case, error) {
	size := c.Collective.Counts(min(c.Size, most), c.Type, c.Ranks).Bytes(c.Type)
	for _, d := range decided {
		if d.Collective == c.Collective && d.Type == c.Type && d.Op == c.Op && d.Root == c.Root && d.Size == size {
			return d, nil
		}
	}
	return bench.Case{}, fmt.Errorf("NCCL decided nothing for %v of %d bytes, %v, %v: it ran other calls than those asked for", c.Collective, size, c.Type, c.Op)
}
