// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"fmt"
	"math"
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

	// Extrapolated says that the calls were long or many, so that some of them were
	// played and the rest continued at the same pace.
	Extrapolated bool
}

// Limits of what is played. A step is a look at one connection.
const (
	exactSteps = 400_000 // an estimate of fewer steps is played in full
	settleLike = 1e-4    // two calls that differ by less take equally long
	leastCalls = 4       // to see that calls take equally long
)

// Simulate returns what the model expects of decision d on the fabric that
// build makes. It calls build several times. A decision that it does not know how
// to play is an error, never a guess.
func Simulate(d Decision, build Builder) (*Estimate, error) {
	if err := d.validate(); err != nil {
		return nil, fmt.Errorf("expected time: %w", err)
	}
	e, err := estimate(&d, build)
	if err != nil {
		return nil, fmt.Errorf("expected time of %v by %v/%v: %w", d.Coll, d.Algo, d.Proto, err)
	}
	return e, nil
}

func estimate(d *Decision, build Builder) (*Estimate, error) {
	f, err := build()
	if err != nil {
		return nil, err
	}
	if err := f.validate(); err != nil {
		return nil, err
	}
	e := &Estimate{RankTime: make([]float64, d.Ranks)}
	if d.Ranks == 1 {
		return e, nil
	}
	c := &call{Decision: d, nodes: f.nodes(d.Ranks)}
	p, err := c.plan()
	if err != nil {
		return nil, err
	}
	if e.Traffic, e.Loads, err = p.traffic(f); err != nil {
		return nil, err
	}
	for _, l := range e.Loads {
		e.Bound = max(e.Bound, l.BusyNs)
	}
	e.Channels = p.channels()
	t, err := c.times(p, build, e)
	if err != nil {
		return nil, err
	}
	e.First = t.first
	for r, v := range t.ranks {
		e.RankTime[r] = v
		e.Time = max(e.Time, v)
	}
	return e, nil
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
// once the pipeline is full, each further loop takes the same time.
func (c *call) times(p *plan, build Builder, e *Estimate) (timing, error) {
	most, least := p.loops()
	long := c.loopsWorthPlaying(p, e)
	if least < most-most/8 || most <= long+long/2 {
		t, _, err := c.play(p, build, 0, e)
		return t, err
	}
	e.Extrapolated = true
	more := long / 2
	a, calls, err := c.play(p.cut(most-long-more), build, 0, e)
	if err != nil {
		return timing{}, err
	}
	b, _, err := c.play(p.cut(most-long), build, calls, e)
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

// loopsWorthPlaying is how many loops fill every buffer on the way several times.
func (c *call) loopsWorthPlaying(p *plan, e *Estimate) int {
	return math.MaxInt / 4
}

// play plays calls back to back until they take equally long, or calls of them if
// that is given, and returns the mean over Iterations.
func (c *call) play(p *plan, build Builder, calls int, e *Estimate) (timing, int, error) {
	f, err := build()
	if err != nil {
		return timing{}, 0, err
	}
	s, err := newSim(p, f, c.Ranks)
	if err != nil {
		return timing{}, 0, err
	}
	n := 0
	for {
		n++
		if err := s.play(n); err != nil {
			return timing{}, 0, err
		}
		if calls > 0 && n < calls {
			continue
		}
		if n == calls || n == c.Iterations || s.steady(n) || s.steps > exactSteps && n >= leastCalls {
			break
		}
	}
	if s.stalls > 0 {
		return timing{}, 0, fmt.Errorf("a path holds more segments than the link model keeps (%d stalls): use a larger mtu or a shorter path", s.stalls)
	}
	if n < c.Iterations {
		e.Extrapolated = true
	}
	return s.timing(n, c.Iterations), n, nil
}

// steady says whether each rank's last calls took equally long.
func (s *sim) steady(n int) bool {
	if n < leastCalls {
		return false
	}
	for r := range s.ranks {
		ends := s.ranks[r].ends
		if len(ends) < n {
			continue // a rank without work
		}
		a, b, c := ends[n-1]-ends[n-2], ends[n-2]-ends[n-3], ends[n-3]-ends[n-4]
		if !alike(a, b) || !alike(b, c) {
			return false
		}
	}
	return true
}

func alike(a, b int64) bool { return math.Abs(float64(a-b)) <= settleLike*float64(max(a, b)) }

// timing is the mean over the wanted number of calls, of which n were played: the
// rest take as long as the last half of them. Without a number wanted it is what
// one more call takes.
func (s *sim) timing(n, wanted int) timing {
	t := timing{ranks: make([]float64, len(s.ranks))}
	for r := range s.ranks {
		ends := s.ranks[r].ends
		if len(ends) < n {
			continue
		}
		t.first = max(t.first, float64(ends[0]))
		half := max(n/2, 1)
		pace := float64(ends[n-1])
		if n > 1 {
			pace = float64(ends[n-1]-ends[n-half-1]) / float64(half)
		}
		t.ranks[r] = pace
		if wanted > 0 {
			t.ranks[r] = (float64(ends[n-1]) + pace*float64(wanted-n)) / float64(wanted)
		}
	}
	return t
}
