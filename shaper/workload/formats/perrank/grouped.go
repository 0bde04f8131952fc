// SPDX-License-Identifier: Apache-2.0

package perrank

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// GroupedCalls makes groups of the sends and receives of a rank that follow each other and have one key. C is what is
// known of a call besides its operation.
type GroupedCalls[C any, K comparable] struct {
	// Add takes each operation, with what is known of its first call.
	Add   func(first C, o workload.Op)
	first C
	key   K
	ops   []workload.Op
}

// Call adds a call.
func (g *GroupedCalls[C, K]) Call(c C, key K, o workload.Op) {
	isColl := o.Kind == workload.Coll
	if isColl || key != g.key {
		g.End()
	}
	if isColl {
		g.Add(c, o)
		return
	}
	if len(g.ops) == 0 {
		g.first, g.key = c, key
	}
	g.ops = append(g.ops, o)
}

// End ends the group. It must be called after the last call.
func (g *GroupedCalls[C, K]) End() {
	switch len(g.ops) {
	case 0:
		return
	case 1:
		g.Add(g.first, g.ops[0])
	default:
		g.Add(g.first, workload.Op{Kind: workload.Group, Ops: slices.Clone(g.ops)})
	}
	g.ops = g.ops[:0]
}
