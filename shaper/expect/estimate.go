// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// Estimate is what the model expects of one call. Times are unscaled ns.
type Estimate struct {
	// Time is that of one of Decision.Iterations calls back to back, from the common
	// start to the end of the last one on the last rank, divided by their number.
	Time float64
	// RankTime is the same up to the end of the last call on each rank; nccl-tests
	// prints their mean.
	RankTime []float64
	// First is the time of a call that finds everything at rest.
	First float64
	// Bound is the time for which the busiest hop is occupied by one call: no
	// schedule of these messages is faster in the long run.
	Bound float64

	Channels int       // used by this call
	Traffic  []Traffic // of one call, between nodes
	Loads    []Load    // of one call

	// Spread is how far, as a fraction, the time goes up or down from Time: all the way
	// that it goes with the order in which flows that are ready at the same instant get
	// their turn, and spreadSigma standard deviations where jitter or loss is drawn.
	// Time is the mean over some of these; over one, and Spread 0, where playing a call
	// takes long. What is drawn in none of them, as a rare loss, is not in it.
	Spread float64

	// Extrapolated says that the calls were long or many, so that some of them were
	// played and the rest continued at the same pace.
	Extrapolated bool

	played    float64 // Time before it is held to Bound
	pieces    uint64  // messages and segments of one call
	transport *link.Transport
}

// Limits of what is played. A step is one look at one connection, about 0.1 us of
// CPU; a message and a segment take about four of them.
const (
	stepsPerPiece = 4
	mostSteps     = 2_000_000
	settleLike    = 1e-4 // calls that differ by less take equally long
	leastCalls    = 4    // to see that calls take equally long
	mostCalls     = 100  // without a number given
	leastLoops    = 8    // of a call that is cut short
	mostTurns     = 8    // orders in which flows get their turn
	mostDraws     = 64   // the same, where jitter or loss is drawn with each
	leastTurns    = 3    // if they make no difference
)

// spreadSigma is how many standard deviations one mean in 2000 is off, if means are
// distributed normally, as those of many calls are.
const spreadSigma = 3.5

// Simulate returns what the model expects of decision d on fabric f. A decision that it does not know how
// to play is an error, never a guess. It ends with ctx.
func Simulate(ctx context.Context, d Decision, f *Fabric) (*Estimate, error) {
	if err := d.validate(); err != nil {
		return nil, fmt.Errorf("expected time: %w", err)
	}
	e, err := estimate(ctx, &d, f)
	if err != nil {
		return nil, fmt.Errorf("expected time of %v by %v/%v: %w", d.Coll, d.Algo, d.Proto, err)
	}
	return e, nil
}

func estimate(ctx context.Context, d *Decision, f *Fabric) (*Estimate, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	e := &Estimate{RankTime: make([]float64, d.Ranks)}
	if d.Ranks == 1 {
		return e, nil
	}
	c := newCall(d, f)
	p, err := c.plan()
	if err != nil {
		return nil, err
	}
	e.transport = f.Transport
	if err := p.traffic(f, e); err != nil {
		return nil, err
	}
	for _, l := range e.Loads {
		e.Bound = max(e.Bound, l.BusyNs)
	}
	e.Channels = p.channels()
	if len(e.Traffic) == 0 {
		return e, nil
	}
	return e, c.average(ctx, p, f, e)
}

// average fills in the times: the mean over several orders of turns and draws, as
// far as that does not take long.
func (c *call) average(ctx context.Context, p *plan, f *Fabric, e *Estimate) error {
	var slowest []float64
	for n := 1; ; n++ {
		t, err := c.times(ctx, p, f, e, mostSteps)
		if err != nil {
			return err
		}
		e.First += (t.first - e.First) / float64(n)
		for r, v := range t.ranks {
			e.RankTime[r] += (v - e.RankTime[r]) / float64(n)
		}
		slowest = append(slowest, slices.Max(t.ranks))
		settled := !c.random && n >= leastTurns && slices.Max(slowest)-slices.Min(slowest) <= settleLike*slices.Max(slowest)
		if settled || n == mostTurns && !c.random || n == mostDraws || c.played > mostSteps {
			break
		}
		c.turn = uint64(n)
	}
	e.played, e.Spread = c.meanAndSpread(slowest)
	// A rank that runs ahead can make the first calls look faster than the rest.
	e.Time = max(e.played, e.Bound)
	return nil
}

// meanAndSpread returns the mean of times and [Estimate.Spread].
func (c *call) meanAndSpread(times []float64) (mean, spread float64) {
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

func (p *plan) channels() int {
	seen := map[int]bool{}
	for _, b := range p.blocks {
		seen[b.channel] = true
	}
	return len(seen)
}

// timing is the outcome of playing one plan.
type timing struct {
	first float64
	ranks []float64 // mean time of a call up to each rank's end
}

// times plays the plan, or two shorter ones from which it continues linearly:
// once the pipeline is full, each further period of loops takes the same time.
func (c *call) times(ctx context.Context, p *plan, f *Fabric, e *Estimate, limit float64) (timing, error) {
	most, least := p.loops()
	cost := float64(e.pieces) * stepsPerPiece * leastCalls
	unit := p.period(most, e)
	up := func(n int) int { return (n + unit - 1) / unit * unit }
	long := up(max(c.loopsToFill(most, e), int(float64(most)*limit/3/max(cost, 1))))
	more := long
	if long < most {
		long += (most - long) % unit
	}
	if cost <= limit || least <= most-long+1 || long+more >= most {
		t, _, err := c.play(ctx, p, f, 0, e)
		return t, err
	}
	e.Extrapolated = true
	a, calls, err := c.play(ctx, p.cut(most-long-more), f, 0, e)
	if err != nil {
		return timing{}, err
	}
	b, _, err := c.play(ctx, p.cut(most-long), f, calls, e)
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

// loopsToFill is how many of a call's loops fill every buffer on the way a few
// times.
func (c *call) loopsToFill(loops int, e *Estimate) int {
	t := e.transport
	buffers := 6*float64(defaultBuffSize) + 3*float64(t.SendBuffer+t.Window)
	most := e.busiest().Bytes
	return max(leastLoops, int(min(buffers/float64(max(most, 1)), 1)*float64(loops)))
}

// period is the number of loops after which a long path repeats itself. What
// bounds it is a window, and all of a window goes at once: the slots of NCCL's
// buffer with rdma, the smaller of the socket's buffers with tcp.
func (p *plan) period(loops int, e *Estimate) int {
	busiest := e.busiest()
	perLoop := float64(max(busiest.Bytes, 1)) / float64(max(loops, 1))
	if t := e.transport; t.Kind == link.TCP {
		return max(1, int(math.Round(float64(min(t.SendBuffer, t.Window))/perLoop)))
	}
	unit := uint64(1)
	for _, c := range p.conns {
		for _, slots := range []uint64{c.sendSlots, c.recvSlots} {
			unit *= slots / gcd(unit, slots)
		}
	}
	return int(unit)
}

// busiest is the connection that carries most.
func (e *Estimate) busiest() Traffic {
	var most Traffic
	for _, t := range e.Traffic {
		if t.Bytes > most.Bytes {
			most = t
		}
	}
	return most
}

// play plays calls back to back until they take equally long, or calls of them if
// that is given, and returns the mean over Iterations.
func (c *call) play(ctx context.Context, p *plan, f *Fabric, calls int, e *Estimate) (timing, int, error) {
	net := link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed+c.turn)
	defer net.Close()
	enqueued := c.Iterations
	if enqueued == 0 {
		enqueued = mostCalls
	}
	s, err := newSim(p, f, net, c.Ranks, enqueued, c.turn)
	if err != nil {
		return timing{}, 0, err
	}
	c.random = s.draws()
	n := 0
	for {
		n++
		if err := s.play(ctx, n); err != nil {
			return timing{}, 0, err
		}
		if calls > 0 && n < calls {
			continue
		}
		if n == calls || n == enqueued || s.steady(n) || s.steps > mostSteps && n >= leastCalls {
			break
		}
	}
	c.played += s.steps
	if n := s.stalls(); n > 0 {
		return timing{}, 0, fmt.Errorf("a path holds more segments than the link model keeps (%d stalls): use a larger mtu or a shorter path", n)
	}
	if n < c.Iterations {
		e.Extrapolated = true
	}
	return s.timing(n, c.Iterations), n, nil
}

// stalls is how often flows kept too many segments to send another one.
func (s *sim) stalls() (n uint64) {
	for i := range s.conns {
		if c := &s.conns[i]; c.flow != nil {
			n += c.flow.Stalls()
		}
	}
	return n
}

// alikeCalls is how many calls in a row must take equally long to be taken for the pace
// of the rest.
const alikeCalls = 3

// steady says whether all ranks' last calls took equally long: the same pace for all,
// because a rank that runs ahead of the others is only filling buffers on the way.
func (s *sim) steady(n int) bool {
	if n < leastCalls {
		return false
	}
	pace := int64(-1)
	for r := range s.ranks {
		ends := s.ranks[r].ends
		if len(ends) < n {
			continue // a rank without work
		}
		for k := n - alikeCalls; k < n; k++ {
			took := ends[k] - ends[k-1]
			if pace < 0 {
				pace = took
			}
			if !alike(took, pace) {
				return false
			}
		}
	}
	return true
}

func alike(a, b int64) bool { return math.Abs(float64(a-b)) <= settleLike*float64(max(a, b)) }

// timing is the mean over the wanted number of calls, of which n were played: the
// rest take as long as the last ones, or the last half where no pace was reached.
// Without a number wanted it is what one more call takes.
func (s *sim) timing(n, wanted int) timing {
	t := timing{ranks: make([]float64, len(s.ranks))}
	last := max(n/2, 1)
	if s.steady(n) {
		last = alikeCalls
	}
	for r := range s.ranks {
		ends := s.ranks[r].ends
		if len(ends) < n {
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
