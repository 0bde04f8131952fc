// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"
	"context"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// Explanation is where the time of calls went along their critical path.
type Explanation struct {
	Calls int          // back to back
	Rank  int          // the last one to end them
	Spent player.Spent // from the common start until then; the sum is the time of the calls to the ns
}

// Explain says where the time of decision d on fabric f goes. It plays d.Iterations calls back to back, as [Simulate]
// does, but none of them shortened or left out: if that takes too long, fewer calls, at least one. So the time is that
// of [Estimate.Time] if that is not extrapolated. If actions at the same instant have a random order, or links
// draw random numbers, it is the time of one run. It returns early when ctx is done.
func Explain(ctx context.Context, d plan.Decision, f *Fabric) (*Explanation, error) {
	if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("parts of the expected time: %w", err)
	}
	e, err := explain(ctx, &d, f, choose())
	if err != nil {
		return nil, fmt.Errorf("parts of the expected time of %s: %w", d.Name(), err)
	}
	return e, nil
}

func explain(ctx context.Context, d *plan.Decision, f *Fabric, by player.Player) (*Explanation, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if d.Ranks == 1 {
		return &Explanation{Calls: 1}, nil
	}
	_, p, err := newSimulated(d, f, by)
	if err != nil {
		return nil, err
	}
	calls := cmp.Or(d.Iterations, 1)
	tooLong := func(p *player.Played) bool {
		return float64(p.Steps)/float64(p.Calls)*float64(p.Calls+1) > effortOn(f).steps
	}
	played, err := by.Calls(ctx, &player.Calls{Plan: p, Ranks: d.Ranks, Fabric: f, Launched: calls, Most: calls,
		Enough: tooLong, Explained: true})
	if err != nil {
		return nil, err
	}
	return explanation(played)
}

// explanation explains calls, which have just ended on the last rank.
func explanation(p *player.Played) (*Explanation, error) {
	out := &Explanation{Calls: p.Calls, Rank: -1}
	last := int64(-1)
	for r, ends := range p.Ends {
		if ends != nil && ends[p.Calls-1] > last {
			out.Rank, last = r, ends[p.Calls-1]
		}
	}
	if out.Rank < 0 { // no rank has work
		out.Rank = 0
		return out, nil
	}
	out.Spent = p.Spent[out.Rank]
	if sum := out.Spent.Sum(); sum != last {
		return nil, fmt.Errorf("the parts are %d ns, the calls take %d ns: the model is wrong", sum, last)
	}
	return out, nil
}
