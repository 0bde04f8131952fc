// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Multicast is what an NVSwitch does with the messages of a connection.
type Multicast uint8

// Kinds of connections.
const (
	Unicast   Multicast = iota // nothing: a message goes from one rank to another one
	Reduces                    // it adds the data of all ranks of a node, and the destination gets the sum
	Broadcast                  // all ranks of the node get the data of the source, which sends it once
)

// defaultNVLSChunkSize is NCCL_NVLS_CHUNKSIZE's default in bytes (transport/nvls.cc).
const defaultNVLSChunkSize = 128 << 10

// validateNVLS checks a call by NVLS or NVLSTree.
func (d *Decision) validateNVLS() error {
	if d.Proto != Simple {
		return fmt.Errorf("%v has no protocol %v", d.Algo, d.Proto)
	}
	if d.NVLSChannels < 1 || d.NVLSChannels > MaxChannels {
		return fmt.Errorf("%d channels for %v: must be 1 to %d", d.NVLSChannels, d.Algo, MaxChannels)
	}
	if d.Algo == NVLSTree && d.Coll != nccl.AllReduce {
		return fmt.Errorf("%v has no %v", d.Algo, d.Coll)
	}
	return nil
}

// checkNVLS checks the nodes and the heads of a call by NVLS or NVLSTree.
func (c *Call) checkNVLS() error {
	if c.Algo == NVLS && c.nodes > 1 {
		return fmt.Errorf("%v between nodes needs switches that reduce, and the model knows no schedule for that",
			c.Algo)
	}
	if c.nodes > 1 && len(c.NVLSHeads) == 0 {
		return fmt.Errorf("%v: NCCL's log does not tell which ranks are its heads", c.Algo)
	}
	for h, ranks := range c.NVLSHeads {
		if len(ranks) != c.nodes {
			return fmt.Errorf("%v: the log has %d ranks of head %d, want one of each of %d nodes", c.Algo,
				len(ranks), h, c.nodes)
		}
		for node, r := range ranks {
			if r < 0 || r >= c.Ranks || c.nodeOf[r] != node {
				return fmt.Errorf("%v: head %d of node %d is rank %d, which is not there", c.Algo, h, node, r)
			}
		}
	}
	return nil
}

// maxNVLSHeads is the most heads that a node has (NCCL_MAX_NVLS_ARITY). One node, such as an NVLink domain, has its
// first GPUs as heads (ncclTopoCompute).
const maxNVLSHeads = 32

// nvlsHeads is the number of parts that a loop has, one for each head of a node.
func (c *Call) nvlsHeads() int {
	if len(c.NVLSHeads) == 0 {
		return min(c.Ranks, maxNVLSHeads)
	}
	return len(c.NVLSHeads)
}

// nvlsHead is the rank that is head h of a node.
func (c *Call) nvlsHead(h, node int) int {
	if len(c.NVLSHeads) == 0 {
		return h
	}
	return c.NVLSHeads[h][node]
}

// nvlsChunk is the payload of a chunk in bytes, of a channel with so many bytes (calcCollChunking).
func (c *Call) nvlsChunk(bytes uint64) uint64 {
	chunk := uint64(cmp.Or(c.NVLSChunkSize, defaultNVLSChunkSize))
	heads := uint64(c.nvlsHeads())
	smaller := func(loops, to uint64) {
		if bytes < loops*heads*chunk && chunk > to {
			chunk = to
		}
	}
	if c.Algo == NVLSTree {
		switch {
		case c.NVLSTreeChunkSize > 0:
			chunk = min(chunk, uint64(c.NVLSTreeChunkSize))
		case c.nodes >= 4:
			chunk = min(chunk, 64<<10)
		}
		smaller(32, 256<<10)
		smaller(16, 128<<10)
		smaller(4, 64<<10)
		smaller(1, 32<<10)
		return chunk
	}
	chunk = min(chunk, c.buffSize()/Steps)
	smaller(64, 64<<10)
	smaller(8, 32<<10)
	smaller(2, 16<<10)
	return chunk
}

// nvlsLoop is a loop of a channel: what part h of it holds, in elements.
type nvlsLoop struct {
	part   func(h int) uint64
	repeat int
}

// nvlsLoops divides a channel's share into loops, each of a chunk for every head (runNvls of device/all_reduce.h).
func (c *Call) nvlsLoops(s Share) []nvlsLoop {
	if c.Coll != nccl.AllReduce { // each rank has its own part, of the same size
		var out []nvlsLoop
		if n := s.count / s.chunk; n > 0 {
			out = append(out, nvlsLoop{func(int) uint64 { return s.chunk }, int(n)})
		}
		if n := s.count % s.chunk; n > 0 {
			out = append(out, nvlsLoop{func(int) uint64 { return n }, 1})
		}
		return out
	}
	heads := uint64(c.nvlsHeads())
	var out []nvlsLoop
	if n := s.count / (heads * s.chunk); n > 0 {
		out = append(out, nvlsLoop{func(int) uint64 { return s.chunk }, int(n)})
	}
	if rem := s.count % (heads * s.chunk); rem > 0 {
		align := 16 / c.shape().elem
		if c.Algo == NVLS {
			align = c.rules.nvlsAlign / c.shape().elem
		}
		last := divUp(divUp(rem, heads), align) * align
		part := func(h int) uint64 { return min(last, rem-min(rem, uint64(h)*last)) }
		out = append(out, nvlsLoop{part, 1})
	}
	return out
}

// nvlsPlan adds the blocks of one channel. The roles of a rank run at the same time: it scatters its data, reduces what
// all ranks of its node have of the part of which it is the head, passes it on, and gathers the parts of all heads.
func (c *Call) nvlsPlan(p *Plan, s Share) {
	loops := c.nvlsLoops(s)
	for node, ranks := range c.ranksOf {
		for _, rank := range ranks {
			if !p.wants(rank) {
				continue
			}
			role := c.nvlsCopyRole(rank, node, s.channel)
			var programs []Program
			if c.Coll != nccl.AllGather {
				programs = append(programs, c.nvlsCopies(role, loops, func(h int) Action {
					return Action{Send: []int{p.connOf(rank, c.nvlsHead(h, node), s.channel, Steps, Reduces)}}
				}))
			}
			for h := range c.nvlsHeads() {
				if c.nvlsHead(h, node) == rank {
					programs = append(programs, c.nvlsPart(p, s.channel, node, h, loops)...)
				}
			}
			if c.Coll != nccl.ReduceScatter {
				programs = append(programs, c.nvlsCopies(role, loops, func(h int) Action {
					return Action{Recv: []int{p.connOf(c.nvlsHead(h, node), rank, s.channel, Steps, Broadcast)}}
				}))
			}
			p.add(rank, s.channel, programs...)
		}
	}
}

// nvlsCopyRole is the role of a rank's copies on a channel. With a parent in the tree, NCCL divides the 20 warps of a
// block among four roles, else among three: 6 scatter and 5 gather instead of 8 and 7 (RunWorkColl of NVLS_TREE,
// device/all_reduce.h). Only heads know the tree (connectNvls, graph/connect.cc).
func (c *Call) nvlsCopyRole(rank, node, channel int) Role {
	if c.Algo != NVLSTree {
		return NVLSCopy
	}
	for h := range c.nvlsHeads() {
		if up, _ := doubleTree(c.nodes, node, channel%2); up >= 0 && c.nvlsHead(h, node) == rank {
			return NVLSTreeCopy
		}
	}
	return NVLSCopy
}

// nvlsCopies copies the parts of all heads between a rank's data and its own buffers, which the switch reduces from or
// broadcasts to. Parts of the same size are one action.
func (c *Call) nvlsCopies(role Role, loops []nvlsLoop, one func(h int) Action) Program {
	var prog Program
	for _, loop := range loops {
		l := Loop{Repeat: loop.repeat, Role: role}
		for h := range c.nvlsHeads() {
			a := one(h)
			a.Bytes = loop.part(h) * c.shape().elem
			if n := len(l.Actions); n > 0 && l.Actions[n-1].Bytes == a.Bytes {
				last := &l.Actions[n-1]
				last.Send, last.Recv = append(last.Send, a.Send...), append(last.Recv, a.Recv...)
				continue
			}
			l.Actions = append(l.Actions, a)
		}
		prog = append(prog, l)
	}
	return prog
}

// nvlsPart is what head h of a node does: reduce and broadcast its part, over a tree of the nodes if there are several.
func (c *Call) nvlsPart(p *Plan, channel, node, h int, loops []nvlsLoop) []Program {
	head := c.nvlsHead(h, node)
	var recv, send []int
	for _, r := range c.ranksOf[node] {
		if c.Coll != nccl.AllGather {
			recv = append(recv, p.connOf(r, head, channel, Steps, Reduces))
		}
		if c.Coll != nccl.ReduceScatter {
			send = append(send, p.connOf(head, r, channel, Steps, Broadcast))
		}
	}
	up, down := -1, []int(nil)
	if c.Algo == NVLSTree {
		up, down = doubleTree(c.nodes, node, channel%2)
	}
	for _, n := range down {
		recv = append(recv, p.conn(c.nvlsHead(h, n), head, channel, Steps))
		send = append(send, p.conn(head, c.nvlsHead(h, n), channel, Steps))
	}
	program := func(recv, send []int) Program {
		var prog Program
		for _, loop := range loops {
			a := Action{Recv: recv, Send: send, Slice: Slice{Bytes: loop.part(h) * c.shape().elem}}
			prog = append(prog, Loop{Actions: []Action{a}, Repeat: loop.repeat, Role: NVLSHead})
		}
		return prog
	}
	if up < 0 {
		return []Program{program(recv, send)}
	}
	parent := c.nvlsHead(h, up)
	return []Program{
		program(recv, []int{p.conn(head, parent, channel, Steps)}),
		program([]int{p.conn(parent, head, channel, Steps)}, send),
	}
}

// doubleTree is the parent, -1 for none, and the children of a node in one of the two trees of ncclGetDtree: a binary
// tree of all nodes in order, and for the other one its mirror if their number is even, else the same shifted by one.
func doubleTree(nodes, node, tree int) (up int, down []int) {
	if tree == 0 {
		return binaryTree(nodes, node)
	}
	if nodes%2 == 0 {
		up, down = binaryTree(nodes, nodes-1-node)
		if up >= 0 {
			up = nodes - 1 - up
		}
		for i := range down {
			down[i] = nodes - 1 - down[i]
		}
		return up, down
	}
	up, down = binaryTree(nodes, (node-1+nodes)%nodes)
	if up >= 0 {
		up = (up + 1) % nodes
	}
	for i := range down {
		down[i] = (down[i] + 1) % nodes
	}
	return up, down
}

// binaryTree is ncclGetBtree: the lowest bit that is set in a node's number is its level.
func binaryTree(nodes, node int) (up int, down []int) {
	bit := 1
	for bit < nodes && node&bit == 0 {
		bit <<= 1
	}
	if node == 0 {
		if nodes > 1 {
			down = []int{bit >> 1}
		}
		return -1, down
	}
	up = node ^ bit | bit<<1
	if up >= nodes {
		up = node ^ bit
	}
	low := bit >> 1
	if low == 0 {
		return up, nil
	}
	down = append(down, node-low)
	for ; low > 0; low >>= 1 {
		if node+low < nodes {
			return up, append(down, node+low)
		}
	}
	return up, down
}
