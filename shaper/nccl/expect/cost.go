// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// cost is what the actions of a loop cost on a node. The zero value costs nothing.
type cost struct {
	*node.Cost
	copies bool // of NVLS: an action moves a part for each of its connections
	part   Part
	// What an action takes longer, and what the first one of a send does, in ns: see [node.SendCost].
	longer, start int64
}

// cost is that of a loop: of a send or receive, between nodes or not, or of a collective with this protocol. Nil Nodes
// cost nothing.
func (n *Nodes) cost(loop *plan.Loop, p2p, between bool, proto plan.Protocol) cost {
	if n == nil {
		return cost{}
	}
	t := &n.Time
	switch {
	case loop.Role == plan.NVLSCopy, loop.Role == plan.NVLSTreeCopy:
		return cost{Cost: t.CopyOfNVLS(loop.Role == plan.NVLSTreeCopy), copies: true, part: NVLSCopy}
	case loop.Role == plan.NVLSHead:
		return cost{Cost: &t.NVLSHead, part: NVLSHead}
	case loop.LL:
		return cost{Cost: &t.LL, part: LL}
	case p2p && between && n.hasSendNet():
		return cost{Cost: &t.SendNet.Action, part: Send, longer: int64(loop.Channels) * t.SendNet.PerChannel,
			start: t.SendNet.Start}
	case p2p:
		return cost{Cost: &t.Send, part: Send}
	}
	switch proto {
	case plan.LL:
		return cost{Cost: &t.LL, part: LL}
	case plan.LL128:
		return cost{Cost: &t.LL128, part: LL128}
	}
	return cost{Cost: &t.Simple, part: Simple}
}

// hasSendNet says whether sends and receives between nodes have a cost of their own.
func (n *Nodes) hasSendNet() bool { return n != nil && n.SendNet != (node.SendCost{}) }

// action is how long an action takes, in ns.
func (c cost) action(a *plan.Action) int64 {
	if c.Cost == nil {
		return 0
	}
	bytes := a.Moves()
	if c.copies {
		bytes *= uint64(max(len(a.Send), len(a.Recv)))
	}
	return c.Time(bytes) + c.longer
}

// onLink is the size of a message on the links within a node.
func (c cost) onLink(bytes uint64) uint64 {
	if c.Cost == nil {
		return bytes
	}
	return c.OnLink(bytes)
}
