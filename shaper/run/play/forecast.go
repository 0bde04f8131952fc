// SPDX-License-Identifier: Apache-2.0

package play

import "context"

// Forecast asks NCCL for its decisions, and calculates with the model alone how long the job takes. No call is run, so
// no buffer takes memory.
func Forecast(ctx context.Context, o Options) (*Result, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	ctx, stop := o.On.Budget.Limit(ctx)
	defer stop()
	o.On.ChooseClock()
	if !o.On.Config.IsVirtual() && o.On.Config.TimeScale == 0 {
		o.On.Config.TimeScale = 1
	}
	return o.attempt(ctx, (*attempt).forecast)
}

// forecast is the outcome of the model.
func (a *attempt) forecast(ctx context.Context) (*Result, error) {
	if err := a.connect(ctx); err != nil {
		return nil, err
	}
	if err := a.decide(ctx); err != nil {
		return nil, err
	}
	plans, err := (&planner{ix: a.o.Workload, steps: a.o.Steps}).plans()
	if err != nil {
		return nil, err
	}
	a.facts.plans, a.facts.Steps = plans, a.o.Steps
	m, err := newModeller(&a.facts)
	if err != nil {
		return nil, err
	}
	var notes []string
	if a.o.GOAL != nil {
		a.o.say("its messages are written", -1)
		if notes, err = writeGOAL(a.o.GOAL, &m.job, m.fabric.Node); err != nil {
			return nil, err
		}
	}
	a.o.say("the model plays", -1)
	spans, err := m.play(ctx)
	if err != nil {
		return nil, err
	}
	r := &Result{Facts: a.facts, Forecast: true, Usual: usualOf(plans), Notes: notes}
	a.facts.measure(r, plans, spans, 1)
	if a.o.Interval {
		if r.Interval, err = a.facts.intervalOf(ctx, r.Steps); err != nil {
			return nil, err
		}
	}
	r.setHops(a.facts.occupied.load)
	return r, a.ranks.Destroy(ctx)
}
