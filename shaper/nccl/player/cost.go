// SPDX-License-Identifier: Apache-2.0

package player

import (
	"github.com/ddlemu/ddlemu/shaper/engine/node"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Cost is what the actions of a loop cost on a node. The zero value costs nothing.
type Cost struct {
	*node.Cost
	copies bool // of NVLS: an action moves a part for each of its connections
	Part   Part
	// What an action takes longer, and what the first one of a send does, in ns: see [node.SendCost].
	Longer, Start int64
}

// Cost is the cost of a loop: of a send or receive, between nodes or not, or of a collective with this protocol. Nil
// Nodes cost nothing.
func (n *Nodes) Cost(loop *plan.Loop, p2p, between bool, proto plan.Protocol) Cost {
	if n == nil {
		return Cost{}
	}
	t := &n.Time
	switch {
	case loop.Role == plan.NVLSCopy, loop.Role == plan.NVLSTreeCopy:
		return Cost{Cost: t.CopyOfNVLS(loop.Role == plan.NVLSTreeCopy), copies: true, Part: NVLSCopy}
	case loop.Role == plan.NVLSHead:
		return Cost{Cost: &t.NVLSHead, Part: NVLSHead}
	case loop.LL:
		return Cost{Cost: &t.LL, Part: LL}
	case p2p && between && n.HasSendNet():
		return Cost{Cost: &t.SendNet.Action, Part: Send, Longer: int64(loop.Channels) * t.SendNet.PerChannel,
			Start: t.SendNet.Start}
	case p2p:
		return Cost{Cost: &t.Send, Part: Send}
	}
	switch proto {
	case plan.LL:
		return Cost{Cost: &t.LL, Part: LL}
	case plan.LL128:
		return Cost{Cost: &t.LL128, Part: LL128}
	}
	return Cost{Cost: &t.Simple, Part: Simple}
}

// HasSendNet says whether sends and receives between nodes have a cost of their own.
func (n *Nodes) HasSendNet() bool { return n != nil && n.SendNet != (node.SendCost{}) }

// Action is how long an action takes, in ns.
func (c Cost) Action(a *plan.Action) int64 {
	if c.Cost == nil {
		return 0
	}
	bytes := a.Moves()
	if c.copies {
		bytes *= uint64(max(len(a.Send), len(a.Recv)))
	}
	return c.Time(bytes) + c.Longer
}

// OnLink is the size of a message on the links within a node.
func (c Cost) OnLink(bytes uint64) uint64 {
	if c.Cost == nil {
		return bytes
	}
	return c.Cost.OnLink(bytes)
}
