// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/host"
)

// TooLongError refuses a run that would take longer than LongestRun.
type TooLongError struct {
	Time  time.Duration
	Scale int
	Hint  string // which profile fits, "" if not known
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf(
		"at time scale %d, which this host needs, the run would take %v, more than %v: ask for smaller sizes or fewer "+
			"iterations, or give --set time_scale=K%s", e.Scale, e.Time, LongestRun, e.Hint)
}

// predict returns the least real time that the run takes on c.
func (o *Options) predict(c *configs.Fabric) time.Duration {
	b := &o.Bench
	runs := float64(b.Warmup+b.Iters) * float64(max(b.Cycles, 1)*max(len(b.Types), 1)*max(len(b.Ops), 1))
	if b.Collective.HasInPlace() && !b.OutOfPlace {
		runs *= 2
	}
	once := 0.0
	for _, size := range b.Sizes {
		once += o.callTime(c, size).Seconds()
	}
	return time.Duration(once * runs * float64(c.TimeScale) * float64(time.Second))
}

// callTime is the least stated time of one call of size bytes on c.
func (o *Options) callTime(c *configs.Fabric, size int64) time.Duration {
	b, l := &o.Bench, &c.Link
	once := 2 * l.Latency.Seconds()
	if rate := l.PayloadRate() * float64(c.NICsPerNode); rate > 0 {
		once += float64(size) * b.Collective.PortFactor(b.Ranks) / rate
	}
	return time.Duration(once * float64(time.Second))
}

// MeasureHost selects the time scale by a measurement of this host.
func (o *Options) MeasureHost(ctx context.Context) (host.Selection, error) {
	o.progress("this host is measured")
	size, err := o.jobSize()
	if err != nil {
		return host.Selection{}, err
	}
	return host.SelectScale(ctx, size)
}

func (o *Options) jobSize() (host.JobSize, error) {
	f, err := fabric.New(&o.Config)
	return host.JobSize{Fabric: f, Ranks: o.Bench.Ranks,
		Message: host.MessageSize(slices.Min(o.Bench.Sizes), o.Bench.Ranks)}, err
}

// tooLong refuses a run that would take t, in a *configs.Error. If this host was measured, the error names the
// profile on which the run would be short enough.
func (o *Options) tooLong(t time.Duration, s host.Selection) error {
	e := &TooLongError{Time: t.Round(time.Second), Scale: o.Config.TimeScale}
	if s.Host.Threads > 0 {
		size, err := o.jobSize()
		if err != nil {
			return err
		}
		e.Hint = "; " + size.Nearest(s.Host, func(c *configs.Fabric) bool { return o.predict(c) <= LongestRun })
	}
	return configs.Errorf("", "%w", e)
}

// The cost of an operation itself on this host (launch, hand-over between threads) is not part of a measurement of
// threads and memory, and is largest in proportion for the smallest message. A short run of that message shows how much
// larger the time scale must be.
const (
	probeIters = 20
	probeOff   = 2.5 // percent of the expected time that the host may add: half of OffPercent
)

// probed is a run of the probe.
func probed(ctx context.Context, p *Options) (Outcome, error) {
	return p.attempt(ctx, nil, &bench.Recording{})
}

// probe measures the smallest size by run, and raises the time scale if necessary.
func (o *Options) probe(ctx context.Context, why *string, run func(context.Context, *Options) (Outcome, error)) error {
	p := *o
	p.Bench.Sizes = []int64{slices.Min(o.Bench.Sizes)}
	p.Bench.Iters, p.Bench.Warmup, p.Bench.Cycles, p.Bench.Check = probeIters, 2, 1, false
	p.Bench.Types, p.Bench.Ops = p.Bench.Types[:min(len(p.Bench.Types), 1)], p.Bench.Ops[:min(len(p.Bench.Ops), 1)]
	if p.predict(&p.Config) > LongestRun/10 {
		return nil // so long that the cost of an operation does not matter
	}
	limited := ctx
	if o.Budget.Total > 0 {
		limit := time.Until(o.Budget.End) / probeShare
		if p.predict(&p.Config) > limit {
			return nil
		}
		var stop context.CancelFunc
		limited, stop = context.WithTimeoutCause(ctx, limit, errProbe)
		defer stop()
	}
	p.Budget.Total = 0 // the context keeps to it
	p.Progress = o.within("choose the time scale")
	out, err := run(limited, &p)
	switch {
	case errors.Is(context.Cause(limited), errProbe) && ctx.Err() == nil:
		return nil // the rows have the time that is left
	case err != nil:
		return err
	}
	if k := needed(out); k > out.Scale {
		o.Config.TimeScale = k
		*why = fmt.Sprintf("chosen for this host: at %d it would add %.0f %% to the time of %d bytes", out.Scale,
			worstDifference(out.Result), p.Bench.Sizes[0])
	}
	return nil
}

// probeShare is the part of a budget, 1 in probeShare, that the probe may take: the rows are what was asked for.
const probeShare = 4

// errProbe is the cause of a context in which the probe took its part of the budget.
var errProbe = errors.New("the probe took its part of the budget")

// needed is the smallest time scale, a power of two up to MaxTimeScale, at which no row of out would exceed its
// expected time by more than probeOff percent.
func needed(out Outcome) int {
	k := 1
	for want := float64(out.Scale) * worstDifference(out.Result) / probeOff; float64(k) < want &&
		k < link.MaxTimeScale; {
		k *= 2
	}
	return k
}

// worstDifference is the difference in percent of the worst row. Of each row it uses the better half, because a
// disturbance affects only one of them.
func worstDifference(r bench.Result) float64 {
	worst := 0.0
	for _, row := range r.Rows {
		better := math.Inf(1)
		for _, m := range row.Measurements() {
			if m.Known {
				better = min(better, m.Diff)
			}
		}
		if !math.IsInf(better, 1) {
			worst = max(worst, better)
		}
	}
	return worst
}
