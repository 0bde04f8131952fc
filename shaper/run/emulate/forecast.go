// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// Forecast is the expectation for one row.
type Forecast struct {
	Case bench.Case // with NCCL's decisions
	// Known says whether Expectation is known. If not, Problem says why.
	Known bool
	bench.Expectation
	Problem string
	// NodeTime is the kind of GPU whose time is in the expectation, "" if nodes cost nothing.
	NodeTime string
	// Nodes is how many have ranks.
	Nodes int
	// Interval is how far healthy clusters may be from the time; it is known with the time of nodes only.
	Interval intervals.Interval
	// Tuner is the tuner that chooses on the real cluster and that ddlemu does not have, "" if there is none.
	Tuner string
	// Seeds are the times with other seeds, nil if they were not asked for or are not known.
	Seeds *SeedTimes
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

// Expect asks real NCCL for its decision on each row of o.Bench, see [bench.Decide], and returns the model's
// expectations. NCCL reads the fabric's NICs with their present parameters. After that its own links are unlimited, so
// that calls which must be run are short.
func Expect(ctx context.Context, o Options) ([]Forecast, bench.Info, error) {
	decided, asked, info, err := o.decide(ctx)
	if err != nil {
		return nil, bench.Info{}, err
	}
	all, err := o.forecasts(ctx, asked, decided)
	if err != nil || o.Seeds < 2 {
		return all, info, err
	}
	seeds, err := o.overSeeds(ctx, asked, decided)
	for i := range all {
		for k := range seeds {
			if seeds[k].Size == all[i].Case.Size {
				all[i].Seeds = &seeds[k]
			}
		}
	}
	return all, info, err
}

// decide asks NCCL for its decision on each row.
func (o *Options) decide(ctx context.Context) ([]bench.Case, *fabric.Fabric, bench.Info, error) {
	o.ChooseClock() // as the run whose times are asked for would
	asked, err := o.askedFabric()
	if err != nil {
		return nil, nil, bench.Info{}, err
	}
	if err := o.checkLongest(asked); err != nil {
		return nil, nil, bench.Info{}, err
	}
	j, err := job.StartFree(ctx, o.Dir, o.privateCopy(asked), "bench")
	if err != nil {
		return nil, nil, bench.Info{}, err
	}
	defer func() { _ = j.Close() }() // if this fails, gc removes the fabric
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	cfg := o.RanksOn(j)
	// By then NCCL has read the speed and latency of the NICs, by which it decides.
	cfg.OnStart = func(bench.Info) {
		if text := j.LinkChanges(); text != "" {
			stop(fmt.Errorf("%s: NCCL may have decided by them: run it again", text))
		} else if err := j.RemoveLimits(); err != nil {
			stop(err)
		}
	}
	o.progress("NCCL decides")
	decided, info, err := bench.Decide(ctx, cfg, cmp.Or(o.DecideUpTo, DecideUpTo))
	return decided, asked, info, err
}

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
	fab, err := fabricfile.Read(f)
	if err == nil {
		fab.Config.NodeTime = o.Config.NodeTime // the file says what up was asked for
	}
	return fab, err
}

// privateCopy is a copy of the asked fabric for this run alone. Leave the links of the asked fabric alone: other jobs
// use them. Its clock is virtual where that is possible: there a rank that waits for others takes no time of a core.
func (o *Options) privateCopy(asked *fabric.Fabric) *fabric.Fabric {
	f := *asked
	f.Config.TimeScale, f.Config.Clock = 1, configs.RealClock
	if o.Libraries.CUDA == locate.Soft && !f.Config.OnKernel() {
		f.Config.Clock = configs.VirtualClock
	}
	f.Config.GPUsPerNode = o.gpus(&f.Config)
	return &f
}

// forecasts calculates each call from NCCL's decision on it, several calls at once. If ctx ends, it returns those that
// are done.
func (o *Options) forecasts(ctx context.Context, f *fabric.Fabric, decided []bench.Case) ([]Forecast, error) {
	known, err := intervals.All()
	if err != nil {
		return nil, err
	}
	all := make([]*Forecast, len(decided))
	var next, done atomic.Int64
	first := expected.New(f, o.Node(f), o.Variable)
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(decided)) {
		workers.Go(func() {
			times := first.Beside()
			times.Explain = o.Explain
			// The largest calls, which are the last, take longest. They come first, so that no worker is left with one.
			for i := len(decided) - int(next.Add(1)); i >= 0 && ctx.Err() == nil; i = len(decided) - int(next.Add(1)) {
				row := o.forecast(ctx, times, decided[i])
				row.Nodes = o.Nodes(&f.Config)
				if f.Config.NodeTime {
					row.NodeTime = f.Config.GPUName()
					row.Interval = intervals.Find(known, o.Class(&f.Config, row.Case.Collective), row.Case.Size)
				}
				if ctx.Err() != nil {
					return
				}
				all[i] = &row
				o.progress(fmt.Sprintf("%d of %d rows calculated", done.Add(1), len(decided)))
			}
		})
	}
	workers.Wait()
	var rows []Forecast
	for _, row := range all {
		if row != nil {
			rows = append(rows, *row)
		}
	}
	return rows, ctx.Err()
}

// Class is the class of calls of a collective on c, by which it is known how far the model is from healthy clusters.
func (o *Options) Class(c *configs.Fabric, of nccl.Collective) intervals.Class {
	class := intervals.Class{GPU: c.GPUName(), Net: intervals.PluginNet}
	switch net := c.NCCLNet(); {
	case o.Nodes(c) <= c.DomainNodes(), net == configs.NoNet:
		class.Net = intervals.NoNet
	case net == configs.IBNet, net == configs.SocketNet:
		class.Net = intervals.OwnNet
	}
	class.Others = class.Net != intervals.NoNet && of != nccl.AllReduce && of != nccl.SendRecv
	return class
}

// forecast calculates one call from NCCL's decision on it.
func (o *Options) forecast(ctx context.Context, times *expected.Times, c bench.Case) Forecast {
	c.Iters = o.Bench.Iters
	row := Forecast{Case: c, Bound: times.Bound(c), Waiting: times.Waiting(c), Tuner: o.tunerOfCluster()}
	if row.Expectation, row.Known = times.Of(ctx, c); !row.Known {
		row.Problem = times.Problem
	}
	return row
}
