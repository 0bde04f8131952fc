// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"time"
)

// Planner follows a run and decides how much of it is measured. Its methods are called from one goroutine, between the
// commands for the ranks.
type Planner interface {
	// Step is called before a step that is not part of a row. what describes it for a person: "2 ranks start".
	Step(what string)
	// Next returns the first of the rows that are left, with the iterations that it is to have; false leaves it out.
	Next(left []Case) (Case, bool)
	// Tried is called after an untimed call of a case with Try set. done is the number of such calls so far, took the
	// real time of this one. It returns the case with the iterations that it is to have. While Try is set, another such
	// call follows.
	Tried(c Case, done int, took time.Duration) Case
	// Timed is called before the timed iterations of half a row.
	Timed(c Case)
	// Update is called every second while these run.
	Update()
	// Measured is called after each half of a row.
	Measured(c Case, p Pace)
}

// Pace is how long the parts of a measurement took, in real time.
type Pace struct {
	Half    time.Duration // all of it
	Untimed time.Duration // the untimed iterations, and connections that the first one makes
	Timed   time.Duration // the timed iterations
}

// noPlanner measures everything.
type noPlanner struct{}

func (noPlanner) Step(string)                               {}
func (noPlanner) Next(left []Case) (Case, bool)             { return left[0], true }
func (noPlanner) Tried(c Case, _ int, _ time.Duration) Case { c.Try = false; return c }
func (noPlanner) Timed(Case)                                {}
func (noPlanner) Update()                                   {}
func (noPlanner) Measured(Case, Pace)                       {}

func (c *Config) planner() Planner {
	if c.Planner == nil {
		return noPlanner{}
	}
	return c.Planner
}

// warmUp runs the untimed calls of c, of which done were run. It returns the case as the planner wants it, with the
// number of all its calls.
func (r *Ranks) warmUp(ctx context.Context, c Case, done int) (Case, error) {
	for c.Try {
		start := time.Now()
		if err := r.do(ctx, "run", "run iters=1 start=0"); err != nil {
			return c, err
		}
		done++
		c = r.cfg.planner().Tried(c, done, time.Since(start))
	}
	c.Launches = max(done, c.Warmup) + c.Iters
	if left := c.Warmup - done; left > 0 {
		return c, r.do(ctx, "run", fmt.Sprintf("run iters=%d start=0", left))
	}
	return c, nil
}
