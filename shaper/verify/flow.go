// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"time"

	"github.com/ddlemu/ddlemu/shaper/state"
)

// MaxDepth is the most sends that one connection has outstanding.
const MaxDepth = 32

// Flow is one connection and what it carries.
type Flow struct {
	Src, Dst int           // NICs, of different nodes
	Size     int           // bytes of each message
	Depth    int           // sends outstanding at most, 1 to MaxDepth
	Spacing  time.Duration // between two posts at least, on the clock
	Messages int           // at most
	// Ready is until the sender knows of the receiver's first receives, on the clock:
	// nothing is posted before, for it would wait for that. 0 if nobody waits.
	Ready time.Duration
	Apart time.Duration // messages come on the clock, about; 0 if that is not known
	Least time.Duration // that a spaced message fits on the clock at least; 0 if not known
}

// Trace is what became of a flow's messages, in order. Times are CLOCK_MONOTONIC in
// ns, not divided by the time scale.
type Trace struct {
	ID      uint64  // names the flow's random draws
	Posted  []int64 // before the call that posted it
	Taken   []int64 // after that call
	Visible []int64 // when the receiver saw it whole; fewer than Posted if some never arrived
	Missing []int64 // when the receiver looked for it last before that, and it was not there
}

// Runner sends messages over the fabric.
type Runner interface {
	Watch
	// Run sends on all flows at once for d on the clock and waits for what is under
	// path, at most tail longer than it fits anyway.
	Run(ctx context.Context, flows []Flow, d, tail time.Duration) ([]Trace, error)
}

// Watch is what is known of a fabric while it is measured.
type Watch interface {
	// Hops is what is in force on the fabric's hops and what they have carried.
	Hops() []state.HopStatus
	// Words are the engine's own reasons not to be believed.
	Words() []string
	// Others is how many ranks of other jobs are on the fabric.
	Others() int
}
