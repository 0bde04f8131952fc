// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"

	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

// Decide returns the calls of cfg, out of place, with NCCL's decision on each of them, its topology and its NICs.
//
// With the software CUDA no call is run: NCCL decides and connects, and the launch of its kernel is refused. So no
// buffer of a call or of a channel gets memory, and a call may have any size. On a real GPU each call is run once, but
// at most runUpTo bytes of it: a larger call gets the decision on one of that size.
func Decide(ctx context.Context, cfg Config, runUpTo int64) ([]Case, Info, error) {
	cfg.Check, cfg.OutOfPlace, cfg.Cycles, cfg.Iters, cfg.Warmup, cfg.Expected = false, true, 1, 1, 1, nil
	ranks, err := StartRanks(ctx, cfg)
	if err != nil {
		return nil, Info{}, err
	}
	cases, info, err := ranks.decideAll(ctx, runUpTo)
	return cases, info, cmp.Or(err, ranks.Close())
}

func (r *Ranks) decideAll(ctx context.Context, runUpTo int64) ([]Case, Info, error) {
	if err := r.Init(ctx); err != nil {
		return nil, Info{}, err
	}
	info := r.Info()
	if r.cfg.OnStart != nil {
		r.cfg.OnStart(info)
	}
	cases := r.cfg.Cases()
	known := map[string]*nccllog.Decision{} // by the call that NCCL got
	for i := range cases {
		asked := cases[i]
		if !r.DecidesOnly() {
			asked = asked.atMost(runUpTo)
		}
		decision, done := known[asked.words()]
		if !done {
			var err error
			if decision, err = r.decide(ctx, asked); err != nil {
				return nil, Info{}, err
			}
			known[asked.words()] = decision
		}
		cases[i].NCCL, cases[i].Topology, cases[i].Decision = info.NCCL, info.Topology, decision
	}
	nics := nccllog.NICsOf(r.comms()) // those of all calls
	for i := range cases {
		cases[i].NICs = nics
	}
	return cases, info, r.Destroy(ctx)
}

// DecidesOnly says whether the ranks can make NCCL decide without running the call.
func (r *Ranks) DecidesOnly() bool { return r.hello[0].fields["decides"] == "1" }

// atMost is the call with at most limit bytes.
func (c Case) atMost(limit int64) Case {
	counts := c.Collective.Counts(min(c.Size, limit), c.Type, c.Ranks)
	c.Size, c.Count = counts.Bytes(c.Type), counts.Param
	return c
}

// decide returns NCCL's decision on a call; nil if there is none, as for send and receive.
func (r *Ranks) decide(ctx context.Context, c Case) (*nccllog.Decision, error) {
	if !r.DecidesOnly() {
		half, err := r.Measure(ctx, c, 0)
		return half.Decision, err
	}
	return r.decideOn(ctx, r.made[""], c)
}
