// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/ddlemu/ddlemu/shaper/nccl"

// Cut is the minimum payload in bytes that one call must move between one node and all others, for any schedule. If
// less was moved, data bypassed the network. Bytes that a protocol adds are not included.
type Cut struct {
	Node    int
	Out, In uint64
}

// Cuts returns the cut of every node, in the order of their first ranks.
func (d *Decision) Cuts(node func(rank int) int) []Cut {
	c := NewCall(d, node)
	if c.nodes < 2 {
		return nil
	}
	bytes, n := d.Count*d.ElemSize, uint64(d.Ranks)
	cuts := make([]Cut, c.nodes)
	for i, ranks := range c.ranksOf {
		cut := &cuts[i]
		cut.Node = node(ranks[0])
		here := uint64(len(ranks))
		rooted := c.nodeOf[d.Root] == i
		switch d.Coll {
		case nccl.AllReduce:
			cut.Out, cut.In = bytes, bytes
		case nccl.AllGather, nccl.HyperCube:
			cut.Out, cut.In = here*bytes, (n-here)*bytes
		case nccl.ReduceScatter:
			cut.Out, cut.In = (n-here)*bytes, here*bytes
		case nccl.Broadcast:
			if rooted {
				cut.Out = bytes
			} else {
				cut.In = bytes
			}
		case nccl.Reduce:
			if rooted {
				cut.In = bytes
			} else {
				cut.Out = bytes
			}
		case nccl.Gather:
			if rooted {
				cut.In = (n - here) * bytes
			} else {
				cut.Out = here * bytes
			}
		case nccl.Scatter:
			if rooted {
				cut.Out = (n - here) * bytes
			} else {
				cut.In = here * bytes
			}
		case nccl.AllToAll:
			cut.Out = here * (n - here) * bytes
			cut.In = cut.Out
		case nccl.SendRecv:
			for _, r := range ranks {
				if c.nodeOf[(r+1)%d.Ranks] != i {
					cut.Out += bytes
				}
				if c.nodeOf[(r-1+d.Ranks)%d.Ranks] != i {
					cut.In += bytes
				}
			}
		}
	}
	return cuts
}
