// SPDX-License-Identifier: Apache-2.0

package expect

import "github.com/ddlemu/ddlemu/shaper/nccl"

// Cut is what one call must move between one node and all others, whatever the
// schedule: less means that data took another way. Bytes of payload, without what
// a protocol adds.
type Cut struct {
	Node    int
	Out, In uint64
}

// Cuts returns the cut of every node, in the order of their first ranks.
func (d *Decision) Cuts(node func(rank int) int) []Cut {
	c := newCall(d, &Fabric{Node: node})
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
		case nccl.AllGather:
			cut.Out, cut.In = here*bytes, (n-here)*bytes
		case nccl.ReduceScatter:
			cut.Out, cut.In = (n-here)*bytes, here*bytes
		case nccl.Broadcast:
			cut.Out, cut.In = choose(rooted, bytes, 0), choose(rooted, 0, bytes)
		case nccl.Reduce:
			cut.Out, cut.In = choose(rooted, 0, bytes), choose(rooted, bytes, 0)
		case nccl.AllToAll:
			cut.Out = here * (n - here) * bytes
			cut.In = cut.Out
		case nccl.SendRecv:
			for _, r := range ranks {
				cut.Out += choose(c.nodeOf[(r+1)%d.Ranks] != i, bytes, 0)
				cut.In += choose(c.nodeOf[(r-1+d.Ranks)%d.Ranks] != i, bytes, 0)
			}
		}
	}
	return cuts
}

func choose(first bool, a, b uint64) uint64 {
	if first {
		return a
	}
	return b
}
