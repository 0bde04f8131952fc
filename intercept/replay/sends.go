// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// planOfSends finds the plan of a group of sends and receives; nil if it is not known. What NCCL has decided on them,
// for all calls of a communicator, is not recorded: the messages show it. Without a version it was searched for, and
// not found.
func (g *graph) planOfSends(c *recordedCall) *planned {
	bytes := g.bytesOf(c)
	if bytes == nil {
		return nil
	}
	known, searched := g.settings[c.Comm]
	all := []plan.Decision{known}
	if !searched || known.Version > 0 {
		all = append(all, g.possible(c)...)
	}
	for _, d := range all {
		if p := g.planWith(d, c, bytes); p != nil {
			g.settings[c.Comm] = d
			return p
		}
	}
	g.settings[c.Comm] = known
	return nil
}

// bytesOf are the bytes of each send, by the ranks of the communicator; nil if a rank has several groups, or two sends
// to one rank: NCCL plans these otherwise.
func (g *graph) bytesOf(c *recordedCall) map[[2]int]int64 {
	bytes, first := map[[2]int]int64{}, map[int]int{}
	for _, i := range c.Tasks {
		x := &g.trace.Tasks[i]
		if j, ok := first[x.Rank]; ok && !g.trace.SameGroup(i, j) {
			return nil
		}
		first[x.Rank] = i
		ends := [2]int{x.Rank, x.Peer}
		if _, twice := bytes[ends]; twice && x.Func == "Send" {
			return nil
		} else if x.Func == "Send" {
			bytes[ends] = int64(x.Count * elemSize(x))
		}
	}
	return bytes
}

// possible are the decisions that may have made the messages of a call.
func (g *graph) possible(c *recordedCall) (all []plan.Decision) {
	highest := 0
	for key := range c.stages {
		highest = max(highest, key.channel)
	}
	for _, version := range g.versions {
		for _, ll := range []bool{false, true} {
			for _, chunk := range []int{0, c.largest, 2 * c.largest, 4 * c.largest} { // 0: NCCL's default
				for channels := 1; channels <= plan.MaxChannels; channels *= 2 {
					for perPeer := 1; perPeer <= channels && channels > highest; perPeer *= 2 {
						all = append(all, plan.Decision{Version: version, Coll: nccl.SendRecv, Ranks: c.task.Ranks, ElemSize: 1,
							P2PChannels: channels, P2PChannelsPerPeer: perPeer, P2PChunkSize: chunk, P2PLL: ll})
					}
				}
			}
		}
	}
	return all
}

// planWith is the plan of a decision; nil if the recorded messages are not those of the plan.
func (g *graph) planWith(d plan.Decision, c *recordedCall, bytes map[[2]int]int64) *planned {
	of, err := plan.NewCall(&d, c.node)
	if err != nil || d.Validate() != nil {
		return nil
	}
	of.Messages = func(rank, peer int) int64 {
		if n, ok := bytes[[2]int{rank, peer}]; ok {
			return n
		}
		return -1
	}
	ranks := make([]int, len(c.nodes))
	for r := range ranks {
		ranks[r] = r
	}
	if p, err := of.P2PPlanOf(ranks); err == nil {
		return g.newPlanned(p, c)
	}
	return nil
}
