// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Estimate is the model's expectation for one call. Times are stated ns.
type Estimate struct {
	// Time is the mean time of Decision.Iterations calls back to back, from the common start to the end of the last
	// call on the last rank.
	Time float64
	// RankTime is the same until the end of the last call on each rank. nccl-tests prints the mean of these.
	RankTime []float64
	// First is the time of the first call, with an idle fabric.
	First float64
	// Bound is the time for which one call occupies the busiest hop. In the long run no schedule of these messages is
	// faster.
	Bound float64

	Channels int       // used by the call
	Traffic  []Traffic // of one call
	Loads    []Load    // of one call

	// Spread is the possible deviation of Time in either direction, as a fraction. It covers all tested orders of flows
	// that are ready at the same instant, and, with random jitter or loss, spreadSigma standard deviations. Time is the
	// mean of these simulations. If a simulation takes long, there are only two. Events that occur in none of them,
	// such as a rare loss, are not covered.
	Spread float64

	Limit Limit

	// Extrapolated says that the calls were long or many, so only some of them were simulated.
	Extrapolated bool

	played    float64 // Time before the maximum with Bound
	pieces    uint64  // messages and segments of one call
	transport *link.Transport
}

// spreadSigma is the deviation, in standard deviations, that one of 2000 means exceeds if means are normally
// distributed, as the times of many calls are.
const spreadSigma = 3.5

// Simulate returns the model's expectation for decision d on fabric f. If it does not know the schedule, it returns an
// error and never a guess. It returns early when ctx is done.
func Simulate(ctx context.Context, d plan.Decision, f *Fabric) (*Estimate, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("expected time: %w", err)
	}
	e, err := estimate(ctx, &d, f)
	if err != nil {
		return nil, fmt.Errorf("expected time of %s: %w", d.Name(), err)
	}
	return e, nil
}

func estimate(ctx context.Context, d *plan.Decision, f *Fabric) (*Estimate, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	if len(f.Changes) > 0 {
		return nil, errors.New("links change at times of a job, so a call alone has no expected time")
	}
	e := &Estimate{RankTime: make([]float64, d.Ranks)}
	if d.Ranks == 1 {
		return e, nil
	}
	c, p, err := newSimulated(d, f)
	if err != nil {
		return nil, err
	}
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
	tieSeed uint64 // for simulation.tieSeed
	played  uint64 // steps simulated so far
	random  bool   // jitter or loss is random
}

// newSimulated returns the call of a decision, and its plan.
func newSimulated(d *plan.Decision, f *Fabric) (*simulated, *plan.Plan, error) {
	c, err := plan.NewCall(d, f.Node)
	if err != nil {
		return nil, nil, err
	}
	p, err := c.Plan()
	return &simulated{Call: c}, p, err
}

// average sets the times: the mean over several orders and random draws, as far as that does not take long.
func (c *simulated) average(ctx context.Context, p *plan.Plan, f *Fabric, e *Estimate) error {
	var slowest []float64
	for n := 1; ; n++ {
		t, err := c.times(ctx, p, f, e, f.effort().steps)
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
		c.tieSeed = uint64(n)
	}
	e.played, e.Spread = c.meanAndSpread(slowest)
	e.notBelowBound(c.Coll)
	return nil
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
	return float64(e.pieces) * stepsPerPiece * float64(f.effort().minCalls)
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

// busiest is the connection with the most bytes.
func (e *Estimate) busiest() Traffic {
	var most Traffic
	for _, t := range e.Traffic {
		if t.Bytes > most.Bytes {
			most = t
		}
	}
	return most
}

// play returns the mean time of a call over Iterations, and the number of calls that were simulated for it: a given
// number, or with 0 as many as it takes.
func (c *simulated) play(ctx context.Context, p *plan.Plan, f *Fabric, calls int, e *Estimate) (timing, int, error) {
	out, err := c.playOnce(ctx, p, f, calls, e.cost(f) > f.effort().steps)
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
// take equally long may still change slowly. Of calls that are known to repeat, only the first and the last ones are
// played, with the same result.
func (c *simulated) simulate(ctx context.Context, p *plan.Plan, f *Fabric, calls int) (playedCalls, error) {
	net := c.network(f)
	defer net.Close()
	enqueued := c.Iterations
	if enqueued == 0 {
		enqueued = maxCalls
	}
	s, err := c.newSimulation(p, f, net, enqueued)
	if err != nil {
		return playedCalls{}, err
	}
	limit := f.effort()
	n, err := s.playCalls(ctx, newRepeats(f, s.conns, net), cmp.Or(calls, enqueued), func(n int) bool {
		tooLong := float64(s.loop.Steps()) > limit.steps
		few := n < minCalls && (n < limit.minCalls || !s.samePace(n, 1, nodePrecision))
		return calls == 0 && (!f.InOrder && s.steady(n) || tooLong && !few)
	})
	if err != nil {
		return playedCalls{}, err
	}
	return playedCalls{s.timing(n, c.Iterations), n, s.loop.Steps(), s.draws()}, nil
}

// playCalls simulates calls until all ranks with work have ended the given number of them, or enough says so of a
// smaller number, and returns how many. Those that again knows to repeat are not played. It may be nil. If a path holds
// more segments than the link model keeps, that is an error.
func (s *simulation) playCalls(ctx context.Context, again *repeats, most int, enough func(n int) bool) (int, error) {
	for n := 1; ; n++ {
		if err := s.play(ctx, func() bool { return s.haveEnded(n - again.skipped()) }); err != nil {
			return 0, err
		}
		n += again.look(s, n, most-n)
		if n == most || again.skipped() == 0 && enough(n) {
			again.fill(s)
			return n, s.checkStalls()
		}
	}
}

// network is an idle network for a simulation of c on f. The caller closes it.
func (c *simulated) network(f *Fabric) *link.Network {
	return link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed+c.tieSeed)
}

// newSimulation simulates a number of calls back to back.
func (c *simulated) newSimulation(p *plan.Plan, f *Fabric, net *link.Network, calls int) (*simulation, error) {
	table := newConnTable(f, net)
	conns, err := table.bind(p, 0, func(r int) int { return r })
	if err != nil {
		return nil, err
	}
	ranks := make([]rankRun, c.Ranks)
	var items []*item // of a call
	for number := range p.Kernels() {
		kernels := p.KernelsOf(number, conns, c.Ranks)
		it := &item{call: sameKernels(kernels)}
		items = append(items, it)
		for r, k := range kernels {
			if k != nil {
				ranks[r] = rankRun{count: calls * p.Kernels(), item: func(i int) *item { return items[i%len(items)] }}
			}
		}
	}
	s := newSimulation(table.conns, ranks, f, c.tieSeed, net)
	s.perCall = len(items)
	return s, nil
}

// sameKernels are the kernels of a call that is repeated, by rank.
type sameKernels []*plan.Kernel

func (k sameKernels) take(rank int) *plan.Kernel { return k[rank] }
func (k sameKernels) drop(int)                   {}

// haveEnded says whether every rank with work has ended the given number of calls.
func (s *simulation) haveEnded(calls int) bool {
	for r := range s.ranks {
		if s.ranks[r].count > 0 && s.ranks[r].ended < calls*s.perCall {
			return false
		}
	}
	return true
}

// checkStalls says if a flow had too many segments in flight to send another one: the model's times are then too long.
func (s *simulation) checkStalls() error {
	var n uint64
	for i := range s.conns {
		if c := &s.conns[i]; c.Flow != nil {
			n += c.Flow.Stalls()
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf(
		"a path holds more segments than the link model keeps (%d stalls): use a larger mtu or a shorter path", n)
}

// steadyCalls is the number of calls in a row with equal times after which the state is steady.
const steadyCalls = 3

// steady says whether the last of n calls took equally long on all ranks.
func (s *simulation) steady(n int) bool {
	return n >= minCalls && s.samePace(n, steadyCalls, sameWithin)
}

// samePace says whether the last calls of n took equally long on all ranks, to a fraction. A rank with another time
// than the others is only filling buffers on its path.
func (s *simulation) samePace(n, calls int, within float64) bool {
	pace := int64(-1)
	for r := range s.ranks {
		if s.ranks[r].ended < n*s.perCall {
			continue // the rank has no work
		}
		for k := n - calls; k < n; k++ {
			took := s.callEnded(r, k) - s.callEnded(r, k-1)
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

// callEnded is when a call ended on a rank.
func (s *simulation) callEnded(r, call int) int64 { return s.ranks[r].spans[(call+1)*s.perCall-1].End }

// timing is the mean over the wanted number of calls, of which n were simulated. The rest are assumed to take as long
// as the last steadyCalls, or the last half of them if no steady state was reached. If wanted is 0, it is the time of
// one more call.
func (s *simulation) timing(n, wanted int) timing {
	t := timing{ranks: make([]float64, len(s.ranks))}
	last := max(n/2, 1)
	if s.steady(n) {
		last = steadyCalls
	}
	for r := range s.ranks {
		if s.ranks[r].ended < n*s.perCall {
			continue
		}
		end := func(call int) int64 { return s.callEnded(r, call) }
		t.first = max(t.first, float64(end(0)))
		pace := float64(end(n - 1))
		if n > 1 {
			pace = float64(end(n-1)-end(n-last-1)) / float64(last)
		}
		t.ranks[r] = pace
		if wanted > 0 {
			t.ranks[r] = (float64(end(n-1)) + pace*float64(wanted-n)) / float64(wanted)
		}
	}
	return t
}
