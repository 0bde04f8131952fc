// SPDX-License-Identifier: Apache-2.0

package plan

import "github.com/ddlemu/ddlemu/shaper/nccl"

// How many bytes of a call NCCL counts, which it sends from rank to rank if the call is made of sends and receives, and
// which must cross the network at least. The bytes of the user's buffers and nccl-tests' factors are in
// shaper/nccl/bytes.go.

// shape is a call in NCCL's units, in which the data type no longer matters.
type shape struct {
	count, elem uint64
	perByte     uint64 // ncclFuncTrafficPerByte
	global      uint64 // bytes of the larger user buffer per element
}

func (d *Decision) shape() shape {
	s := shape{count: d.Count, elem: d.ElemSize, perByte: 1}
	n := uint64(d.Ranks)
	switch d.Coll {
	case nccl.AllReduce:
		s.perByte = 2
	case nccl.AllGather, nccl.ReduceScatter:
		s.perByte = n
	}
	if d.Coll == nccl.AllGather || d.Coll == nccl.Broadcast {
		s.count, s.elem = d.Count*d.ElemSize, 1
	}
	s.global = s.elem
	if d.Coll == nccl.AllGather || d.Coll == nccl.ReduceScatter {
		s.global *= n
	}
	return s
}

// wants is the number of bytes that rank sends to peer, -1 for no message.
func (c *Call) wants(rank, peer int) int64 {
	if c.Messages != nil {
		return c.Messages(rank, peer)
	}
	sends, bytes := true, int64(c.Count*c.ElemSize)
	switch c.Coll {
	case nccl.SendRecv:
		sends = peer == (rank+1)%c.Ranks
	case nccl.Gather:
		sends = peer == c.Root
	case nccl.Scatter:
		sends = rank == c.Root
	case nccl.HyperCube:
		sends, bytes = peer == rank^c.distance, bytes*int64(c.distance)
	}
	if !sends || c.InPlace && rank == peer { // NCCL leaves out a send from a buffer to itself
		return -1
	}
	return bytes
}

// Cut is the minimum payload in bytes that one call must move between one node and all others, for any schedule. If
// less was moved, data bypassed the network. Bytes that a protocol adds are not included.
type Cut struct {
	Node    int
	Out, In uint64
}

// Cuts returns the cut of every node, in the order of their first ranks.
func (d *Decision) Cuts(node func(rank int) int) []Cut {
	c := place(d.Ranks, node)
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
