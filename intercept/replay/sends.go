// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// sendSettings are what NCCL has decided on the sends and receives of a communicator, once for all calls. It is not
// recorded: the messages show it. Without a version it was searched for, and not found.
type sendSettings struct {
	version, channels, perPeer, chunk int
	ll                                bool
}

// planOfSends finds the plan of a group of sends and receives; nil if it is not known.
func (g *graph) planOfSends(c *recordedCall) *planned {
	bytes := g.bytesOf(c)
	if bytes == nil {
		return nil
	}
	known, searched := g.settings[c.Comm]
	all := []sendSettings{known}
	if !searched || known.version > 0 {
		all = append(all, g.possible(c)...)
	}
	for _, settings := range all {
		if p := g.planWith(settings, c, bytes); p != nil {
			g.settings[c.Comm] = settings
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
		}
		if x.Func == "Send" {
			bytes[ends] = int64(x.Count * elemSize(x))
		}
	}
	return bytes
}

// possible are the settings that may have made the messages of a call.
func (g *graph) possible(c *recordedCall) (all []sendSettings) {
	highest := 0
	for key := range c.stages {
		highest = max(highest, key.channel)
	}
	for _, version := range g.versions {
		for _, ll := range []bool{false, true} {
			for _, chunk := range []int{0, c.largest, 2 * c.largest, 4 * c.largest} { // 0: NCCL's default
				for channels := 1; channels <= plan.MaxChannels; channels *= 2 {
					for perPeer := 1; perPeer <= channels && channels > highest; perPeer *= 2 {
						all = append(all, sendSettings{version, channels, perPeer, chunk, ll})
					}
				}
			}
		}
	}
	return all
}

// planWith is the plan with these settings; nil if the recorded messages are not those of the plan.
func (g *graph) planWith(s sendSettings, c *recordedCall, bytes map[[2]int]int64) *planned {
	d := plan.Decision{Version: s.version, Coll: nccl.SendRecv, Ranks: c.task.Ranks, ElemSize: 1,
		P2PChannels: s.channels, P2PChannelsPerPeer: s.perPeer, P2PChunkSize: s.chunk, P2PLL: s.ll}
	if d.Validate() != nil {
		return nil
	}
	of, err := plan.NewCall(&d, c.node)
	if err != nil {
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
