// SPDX-License-Identifier: Apache-2.0

// Package player is what shaper/nccl/expect and a player of NCCL's plans know of each other. A player finds when calls
// end on a fabric whose hosts cost nothing but [Fabric.Nodes]. shaper/nccl/player/events is one.
package player

import (
	"context"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Player plays what NCCL does, in stated time. It is safe for concurrent use. Its functions return early with an error
// when ctx is done.
type Player interface {
	// Calls plays the same call again and again.
	Calls(ctx context.Context, c *Calls) (*Played, error)
	// Job plays a job. It returns when each item of each rank starts and ends, and whether links draw random numbers.
	Job(ctx context.Context, j *plan.Job, f *Fabric) (spans [][]Span, random bool, err error)
}

// Calls are calls back to back on a fabric that is idle at the start.
type Calls struct {
	Plan   *plan.Plan
	Ranks  int
	Fabric *Fabric
	// Order selects the order of connections that are ready at the same instant, where [Fabric.InOrder] does not fix
	// it, and the random numbers of links.
	Order uint64
	// Launched is the number of calls that each rank's host launches, Most the number that is played, if Enough is not
	// content with fewer.
	Launched, Most int
	// Enough is asked when all ranks have ended a further call. Nil: Most are played.
	Enough func(*Played) bool
	// Explained says that [Played.Spent] is wanted.
	Explained bool
}

// Played is what was found out by playing calls.
type Played struct {
	Calls  int
	Ends   [][]int64 // by rank and call, ns since the start; nil for a rank without work
	Steps  uint64    // of the engine, or as many as would take as long
	Random bool      // links draw random numbers
	Spent  []Spent   // by rank: the time until the last thing that has ended there
}

// Span is when an item was the first of its stream with all of its After ended, and when it ended. A call may then
// still wait for the call before it on its communicator. Times are ns since the start of the job; -1 if that has not
// happened.
type Span struct{ Start, End int64 }

// Later is the span moved by so many ns, as far as it is known.
func (s Span) Later(ns int64) Span {
	for _, t := range []*int64{&s.Start, &s.End} {
		if *t >= 0 {
			*t += ns
		}
	}
	return s
}
