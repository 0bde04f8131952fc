// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Limits of a simulation. A step processes one connection once and takes about 0.1 us of CPU time, 0.5 us if thousands
// of connections take turns; a message and a segment take about four steps.
const (
	stepsPerPiece = 4
	maxSteps      = 2_000_000
	maxExactSteps = 20_000_000 // in the order of a virtual clock, without random numbers: there the result is exact
	sameWithin    = 1e-4       // calls whose times differ by less are equal
	minCalls      = 4          // to find a steady state
	maxCalls      = 100        // if Iterations is 0
	minLoops      = 8          // of a shortened call
	maxOrders     = 8          // orders of flows that are ready at the same instant
	maxDraws      = 64         // the same with random jitter or loss
	minDraws      = 2          // so that Spread is known
	minOrders     = 3          // if the orders make no difference
)

// The same with the time of nodes. A simulation then has many more messages, those within the nodes, and the times of
// nodes are known to a few percent only. So it takes fewer steps, and may be less exact.
const (
	maxNodeSteps  = 200_000
	minNodeCalls  = 2    // if they take more than maxNodeSteps: a long call fills the buffers long before it ends
	minNodeLoops  = 2    // of a shortened call
	fillMessages  = 64   // messages that fill the buffer of a connection several times: it has 8 slots
	nodePrecision = 1e-3 // standard deviation of the mean of several draws, as a fraction of the mean
)

// effort limits how much of calls back to back is simulated.
type effort struct {
	steps float64 // after which no further call is simulated; longer calls are shortened
	// minCalls are simulated even if they take more steps. There may be more of them, up to the constant of the same
	// name, until the last one took equally long on all ranks.
	minCalls int
	// precision ends the random draws: when the standard deviation of their mean, as a fraction of it, is no larger. 0
	// if only maxSteps and maxDraws end them.
	precision float64
}

// effortOn returns the limits for calls on f.
func effortOn(f *Fabric) effort {
	draws := func(p link.Params) bool { return p.Draws() }
	switch {
	case f.Nodes != nil:
		return effort{maxNodeSteps, minNodeCalls, nodePrecision}
	case f.InOrder && !slices.ContainsFunc(f.Params, draws):
		return effort{maxExactSteps, minCalls, 0}
	}
	return effort{maxSteps, minCalls, 0}
}
