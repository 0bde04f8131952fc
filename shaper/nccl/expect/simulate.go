// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// spreadSigma is the deviation, in standard deviations, that one of 2000 means exceeds if means are normally
// distributed, as the times of many calls are.
const spreadSigma = 3.5

// Simulate returns the model's expectation for decision d on fabric f. If it does not know the schedule, it returns an
// error and never a guess. It returns early when ctx is done.
func Simulate(ctx context.Context, d plan.Decision, f *Fabric) (*Estimate, error) {
	return (*Memo)(nil).Simulate(ctx, d, f)
}

func estimate(ctx context.Context, d *plan.Decision, f *Fabric, by player.Player, memo *Memo) (*Estimate, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if len(f.Changes) > 0 {
		return nil, errors.New("links change at times of a job, so a call alone has no expected time")
	}
	e := &Estimate{RankTime: make([]float64, d.Ranks)}
	if d.Ranks == 1 {
		return e, nil
	}
	c, p, err := newSimulated(d, f, by)
	if err != nil {
		return nil, err
	}
	c.memo = memo
	e.transport = f.Transport
	if err := e.addTraffic(p, f); err != nil {
		return nil, err
	}
	for _, l := range e.Loads {
		e.Bound = max(e.Bound, l.BusyNs)
	}
	e.Channels = p.Channels()
	if len(e.Traffic) == 0 {
		return e, nil
	}
	if err := c.average(ctx, p, f, e); err != nil {
		return e, err
	}
	e.Limit = e.limit(p, f, d.Coll.IsP2P())
	return e, nil
}

// simulated is a call whose time is being found.
type simulated struct {
	*plan.Call
	player player.Player
	memo   *Memo
	order  uint64 // see [player.Calls]
	played uint64 // steps simulated so far
	random bool   // jitter or loss is random
}

// newSimulated returns the call of a decision, and its plan.
func newSimulated(d *plan.Decision, f *Fabric, by player.Player) (*simulated, *plan.Plan, error) {
	c, err := plan.NewCall(d, f.Node)
	if err != nil {
		return nil, nil, err
	}
	p, err := c.Plan()
	return &simulated{Call: c, player: by}, p, err
}

// average sets the times: the mean over several orders and random draws, as far as that does not take long.
func (c *simulated) average(ctx context.Context, p *plan.Plan, f *Fabric, e *Estimate) error {
	var slowest []float64
	for n := 1; ; n++ {
		t, err := c.times(ctx, p, f, e, effortOn(f).steps)
		if err != nil {
			return err
		}
		e.First += (t.first - e.First) / float64(n)
		for r, v := range t.ranks {
			e.RankTime[r] += (v - e.RankTime[r]) / float64(n)
		}
		slowest = append(slowest, slices.Max(t.ranks))
		if c.isEnough(slowest, f) {
			break
		}
		c.order = uint64(n)
	}
	e.played, e.Spread = c.meanAndSpread(slowest)
	e.notBelowBound(c.Coll)
	return nil
}

// isEnough says whether no further order of flows, or draw, is simulated after those that took these times.
func (c *simulated) isEnough(times []float64, f *Fabric) bool {
	n := len(times)
	if !c.random {
		settled := n >= minOrders && slices.Max(times)-slices.Min(times) <= sameWithin*slices.Max(times)
		return settled || f.InOrder || n == maxOrders || c.played > maxSteps && n >= minDraws
	}
	if n < minDraws {
		return false
	}
	mean, deviation := stat.MeanStdDev(times, nil)
	precision := effortOn(f).precision
	known := precision > 0 && deviation <= precision*mean*math.Sqrt(float64(n))
	return known || n == maxDraws || c.played > maxSteps
}

// notBelowBound sets Time. A rank that runs ahead can make the first calls look faster than later ones, and the first
// loops of a call that was cut short faster than the others: in the long run none is faster than its busiest hop. Each
// rank of an all-reduce or all-gather waits for all others, so that holds for each of them.
func (e *Estimate) notBelowBound(coll nccl.Collective) {
	e.Time = max(e.played, e.Bound)
	if !e.Extrapolated || coll != nccl.AllReduce && coll != nccl.AllGather {
		return
	}
	for r, t := range e.RankTime {
		e.RankTime[r] = max(t, e.Bound)
	}
}

// meanAndSpread returns the mean of times and [Estimate.Spread].
func (c *simulated) meanAndSpread(times []float64) (mean, spread float64) {
	mean, deviation := stat.MeanStdDev(times, nil)
	if mean == 0 {
		return 0, 0
	}
	spread = max(slices.Max(times)-mean, mean-slices.Min(times))
	if c.random && len(times) > 1 {
		spread = max(spread, spreadSigma*deviation)
	}
	return mean, spread / mean
}

// timing is the result of simulating one plan.
type timing struct {
	first float64
	ranks []float64 // mean time of a call up to each rank's end
}

// times simulates the plan. If that takes too long, it simulates two shorter plans and extrapolates linearly: once the
// pipeline is full, each further period of loops takes the same time.
func (c *simulated) times(ctx context.Context, p *plan.Plan, f *Fabric, e *Estimate, limit float64) (timing, error) {
	most, least := p.Loops()
	cost := e.cost(f)
	unit := e.period(p, f, most)
	up := func(n int) int { return (n + unit - 1) / unit * unit }
	long := up(max(c.loopsToFill(most, f, e), int(float64(most)*limit/3/max(cost, 1))))
	more := long
	if long < most {
		long += (most - long) % unit
	}
	if cost <= limit || least <= most-long+1 || long+more >= most {
		t, _, err := c.play(ctx, p, f, 0, e)
		return t, err
	}
	e.Extrapolated = true
	a, calls, err := c.play(ctx, p.Shorten(most-long-more), f, 0, e)
	if err != nil {
		return timing{}, err
	}
	b, _, err := c.play(ctx, p.Shorten(most-long), f, calls, e)
	if err != nil {
		return timing{}, err
	}
	k := float64(most-long-more) / float64(more)
	on := func(x, y float64) float64 { return x + (x-y)*k }
	t := timing{first: on(a.first, b.first), ranks: make([]float64, len(a.ranks))}
	for r := range t.ranks {
		t.ranks[r] = on(a.ranks[r], b.ranks[r])
	}
	return t, nil
}

// cost is about the number of steps of the fewest calls that may be simulated.
func (e *Estimate) cost(f *Fabric) float64 {
	return float64(e.pieces) * stepsPerPiece * float64(effortOn(f).minCalls)
}

// period is the number of loops after which a long path repeats itself. The path is limited by a window that is sent as
// a whole: the slots of NCCL's buffer with rdma, the smaller of the socket's buffers with tcp. With the time of nodes a
// loop may have many messages for each slot.
func (e *Estimate) period(p *plan.Plan, f *Fabric, loops int) int {
	busiest := e.busiest()
	perLoop := float64(max(busiest.Bytes, 1)) / float64(max(loops, 1))
	if t := e.transport; t.Kind == link.TCP {
		return max(1, int(math.Round(float64(min(t.SendBuffer, t.Window))/perLoop)))
	}
	if f.Nodes == nil {
		return p.Window()
	}
	return max(1, p.Window()/max(1, int(busiest.Messages)/max(loops, 1)))
}

// loopsToFill is the number of loops of a call that fill every buffer on the path a few times. With the time of nodes
// that is NCCL's buffers, which a few loops fill: rdma has no other ones.
func (c *simulated) loopsToFill(loops int, f *Fabric, e *Estimate) int {
	t := e.transport
	if f.Nodes != nil && t.Kind == link.RDMA {
		perLoop := float64(e.busiest().Messages) / float64(loops)
		return min(max(minNodeLoops, int(math.Ceil(fillMessages/perLoop))), minLoops)
	}
	buffers := 6*float64(plan.DefaultBuffSize) + 3*float64(t.SendBuffer+t.Window)
	most := e.busiest().Bytes
	return max(minLoops, int(min(buffers/float64(max(most, 1)), 1)*float64(loops)))
}

// play returns the mean time of a call over Iterations, and the number of calls that were simulated for it: a given
// number, or with 0 as many as it takes.
func (c *simulated) play(ctx context.Context, p *plan.Plan, f *Fabric, calls int, e *Estimate) (timing, int, error) {
	out, err := c.playOnce(ctx, p, f, calls, e.cost(f) > effortOn(f).steps)
	if err != nil {
		return timing{}, 0, err
	}
	c.random = out.random
	c.played += out.steps
	if out.calls < c.Iterations {
		e.Extrapolated = true
	}
	return out.timing, out.calls, nil
}

// simulate simulates calls back to back until their times are equal, or a given number of calls. In the order of a
// virtual clock it simulates all of them, if that does not take long: there the result is exact, and calls that seem to
// take equally long may still change slowly.
func (c *simulated) simulate(ctx context.Context, p *plan.Plan, f *Fabric, calls int) (playedCalls, error) {
	launched := cmp.Or(c.Iterations, maxCalls)
	ask := &player.Calls{Plan: p, Ranks: c.Ranks, Fabric: f, Order: c.order, Launched: launched,
		Most: cmp.Or(calls, launched)}
	if calls == 0 {
		ask.Enough = enoughOn(f)
	}
	out, err := c.player.Calls(ctx, ask)
	if err != nil {
		return playedCalls{}, err
	}
	return playedCalls{timingOf(out, c.Iterations), out.Calls, out.Steps, out.Random}, nil
}

// enoughOn says of calls on f whether no further one need be played.
func enoughOn(f *Fabric) func(*player.Played) bool {
	limit := effortOn(f)
	return func(p *player.Played) bool {
		tooLong := float64(p.Steps) > limit.steps
		few := p.Calls < minCalls && (p.Calls < limit.minCalls || !samePace(p, 1, nodePrecision))
		return !f.InOrder && isSteady(p) || tooLong && !few
	}
}

// steadyCalls is the number of calls in a row with equal times after which the state is steady.
const steadyCalls = 3

// isSteady says whether the last calls took equally long on all ranks.
func isSteady(p *player.Played) bool {
	return p.Calls >= minCalls && samePace(p, steadyCalls, sameWithin)
}

// samePace says whether the last calls took equally long on all ranks, to a fraction. A rank with another time than the
// others is only filling buffers on its path.
func samePace(p *player.Played, calls int, within float64) bool {
	pace := int64(-1)
	for _, ends := range p.Ends {
		if ends == nil {
			continue // the rank has no work
		}
		for k := p.Calls - calls; k < p.Calls; k++ {
			took := ends[k] - ends[k-1]
			if pace < 0 {
				pace = took
			}
			if math.Abs(float64(took-pace)) > within*float64(max(took, pace)) {
				return false
			}
		}
	}
	return true
}

// timingOf is the mean over the wanted number of calls, of which the calls of p were played. The rest are assumed to
// take as long as the last steadyCalls, or the last half of them if no steady state was reached. If wanted is 0, it is
// the time of one more call.
func timingOf(p *player.Played, wanted int) timing {
	n := p.Calls
	t := timing{ranks: make([]float64, len(p.Ends))}
	last := max(n/2, 1)
	if isSteady(p) {
		last = steadyCalls
	}
	for r, ends := range p.Ends {
		if ends == nil {
			continue
		}
		t.first = max(t.first, float64(ends[0]))
		pace := float64(ends[n-1])
		if n > 1 {
			pace = float64(ends[n-1]-ends[n-last-1]) / float64(last)
		}
		t.ranks[r] = pace
		if wanted > 0 {
			t.ranks[r] = (float64(ends[n-1]) + pace*float64(wanted-n)) / float64(wanted)
		}
	}
	return t
}
