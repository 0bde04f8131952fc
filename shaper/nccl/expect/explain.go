// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Explanation is where the time of calls went along their critical path.
type Explanation struct {
	Calls int   // back to back
	Rank  int   // the last one to end them
	Spent Spent // from the common start until then; the sum is the time of the calls to the ns
}

// Explain says where the time of decision d on fabric f goes. It plays d.Iterations calls back to back, as [Simulate]
// does, but none of them shortened or left out: if that takes too long, fewer calls, at least one. So the time is that
// of [Estimate.Time] if that is not extrapolated. If what is ready at the same instant has a random order, or links
// draw random numbers, it is the time of one run. It returns early when ctx is done.
func Explain(ctx context.Context, d plan.Decision, f *Fabric) (*Explanation, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("parts of the expected time: %w", err)
	}
	e, err := explain(ctx, &d, f)
	if err != nil {
		return nil, fmt.Errorf("parts of the expected time of %s: %w", d.Name(), err)
	}
	return e, nil
}

func explain(ctx context.Context, d *plan.Decision, f *Fabric) (*Explanation, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	if d.Ranks == 1 {
		return &Explanation{Calls: 1}, nil
	}
	c, p, err := newSimulated(d, f)
	if err != nil {
		return nil, err
	}
	net := c.network(f)
	defer net.Close()
	net.KeepHopRecords()
	calls := cmp.Or(d.Iterations, 1)
	s, err := c.newSimulation(p, f, net, calls)
	if err != nil {
		return nil, err
	}
	s.explain(f)
	tooLong := func(n int) bool { return float64(s.loop.Steps())/float64(n)*float64(n+1) > f.effort().steps }
	n, err := s.playCalls(ctx, nil, calls, tooLong)
	if err != nil {
		return nil, err
	}
	return s.explanation(n)
}

// explanation explains the first n calls, which have just ended on the last rank.
func (s *simulation) explanation(n int) (*Explanation, error) {
	out := &Explanation{Calls: n, Rank: -1}
	last := int64(-1)
	for r := range s.ranks {
		if s.ranks[r].count == 0 {
			continue
		}
		if end := s.callEnded(r, n-1); end > last {
			out.Rank, last = r, end
		}
	}
	if out.Rank < 0 { // no rank has work
		out.Rank = 0
		return out, nil
	}
	out.Spent = s.causes.ranks[out.Rank].ended.spent
	if sum := out.Spent.Sum(); sum != last {
		return nil, fmt.Errorf("the parts are %d ns, the calls take %d ns: the model is wrong", sum, last)
	}
	return out, nil
}
