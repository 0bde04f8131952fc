// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"context"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
)

// MaxDepth is the maximum number of outstanding sends of a connection.
const MaxDepth = 32

// Flow is a connection and its messages. Times are real time.
type Flow struct {
	Src, Dst int           // NICs of different nodes
	Size     int           // bytes of each message
	Depth    int           // maximum of outstanding sends, 1 to MaxDepth
	Spacing  time.Duration // minimum between two posts
	Messages int           // maximum number of messages
	// Ready is the time until the sender knows of the receiver's first receives. Nothing is posted earlier, because it
	// would wait for them. 0 if the sender does not wait for receives.
	Ready time.Duration
	Apart time.Duration // approximate time between arrivals; 0 if not known
	Least time.Duration // minimum time of a single message; 0 if not known
}

// Trace has the times of a flow's messages, in order of posting: CLOCK_MONOTONIC in ns, real time.
type Trace struct {
	ID       uint64  // of the flow, which selects its random draws
	Posted   []int64 // before the call that posts the message
	Returned []int64 // after that call
	Visible  []int64 // when the receiver saw all of it; fewer than Posted if some never arrived
	Missing  []int64 // the receiver's last poll before Visible, when the message was not there
}

// Runner sends messages over the fabric.
type Runner interface {
	Watch
	// Run sends on all flows at once for d and then waits for messages in flight, at most tail longer than they need.
	Run(ctx context.Context, flows []Flow, d, tail time.Duration) ([]Trace, error)
}

// Watch reads the state of a fabric while it is measured.
type Watch interface {
	// Hops returns the parameters and counters of all hops.
	Hops() []state.HopStatus
	// Findings returns the engine's reasons why its results are not valid.
	Findings() []verdict.Finding
	// Others returns the number of ranks of other jobs on the fabric.
	Others() int
}
