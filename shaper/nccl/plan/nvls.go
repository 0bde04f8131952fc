// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Multicast is what an NVSwitch does with the messages of a connection.
type Multicast uint8

// Kinds of connections.
const (
	Unicast   Multicast = iota // nothing: a message goes from one rank to another one
	Reduces                    // it adds those of all ranks of a node, and the destination gets the sum
	Broadcast                  // all ranks of the node get that of the source, which sends it once
)

// nvlsChunkSize is NCCL_NVLS_CHUNKSIZE's default in bytes (transport/nvls.cc).
const nvlsChunkSize = 128 << 10

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

// checkNVLS checks the nodes of a call by NVLS or NVLSTree.
func (c *Call) checkNVLS() error {
	for _, ranks := range c.ranksOf {
		if len(ranks) != len(c.ranksOf[0]) {
			return fmt.Errorf("%v: the nodes have different numbers of ranks, and the model knows no schedule for that", c.Algo)
		}
	}
	if c.Algo == NVLS && c.nodes > 1 {
		return fmt.Errorf("%v between nodes needs switches that reduce, and the model knows no schedule for that", c.Algo)
	}
	return nil
}

// nvlsHeads is the number of ranks of a node that reduce and broadcast a part of each loop, one rank for each part.
func (c *Call) nvlsHeads() int { return len(c.ranksOf[0]) }

// nvlsChunk is the payload of a chunk in bytes, of a channel with so many bytes (calcCollChunking).
func (c *Call) nvlsChunk(bytes uint64) uint64 {
	chunk := min(c.buffSize()/Steps, nvlsChunkSize)
	most := uint64(c.nvlsHeads())
	smaller := func(loops, to uint64) {
		if bytes < loops*most*chunk && chunk > to {
			chunk = to
		}
	}
	if c.Algo == NVLSTree {
		if c.nodes >= 4 {
			chunk = min(chunk, 64<<10)
		}
		smaller(32, 256<<10)
		smaller(16, 128<<10)
		smaller(4, 64<<10)
		smaller(1, 32<<10)
		return chunk
	}
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
		out = append(out, nvlsLoop{func(h int) uint64 {
			return min(last, rem-min(rem, uint64(h)*last))
		}, 1})
	}
	return out
}

// nvlsPlan adds the blocks of one channel. The roles of a rank run at the same time: it scatters its data, reduces what
// all have of the part of which it is the head, passes it on, and gathers the parts of all heads.
func (c *Call) nvlsPlan(p *Plan, s Share) {
	loops := c.nvlsLoops(s)
	for node, ranks := range c.ranksOf {
		for h, rank := range ranks {
			if !p.wants(rank) {
				continue
			}
			var programs []Program
			if c.Coll != nccl.AllGather {
				programs = append(programs, c.nvlsScatter(p, s.channel, ranks, rank, loops))
			}
			programs = append(programs, c.nvlsHead(p, s.channel, node, h, loops)...)
			if c.Coll != nccl.ReduceScatter {
				programs = append(programs, c.nvlsGather(p, s.channel, ranks, rank, loops))
			}
			p.add(rank, s.channel, programs...)
		}
	}
}

// nvlsScatter copies a rank's parts to its own buffers, from which the switch reduces.
func (c *Call) nvlsScatter(p *Plan, channel int, ranks []int, rank int, loops []nvlsLoop) Program {
	return c.nvlsCopies(loops, ranks, func(h int, bytes uint64) Action {
		i := p.connOf(rank, ranks[h], channel, Steps, Reduces)
		return Action{Send: []int{i}, Slice: Slice{Bytes: bytes}}
	})
}

// nvlsGather copies the parts of all heads from a rank's own buffers, to which the switch broadcast them.
func (c *Call) nvlsGather(p *Plan, channel int, ranks []int, rank int, loops []nvlsLoop) Program {
	return c.nvlsCopies(loops, ranks, func(h int, bytes uint64) Action {
		i := p.connOf(ranks[h], rank, channel, Steps, Broadcast)
		return Action{Recv: []int{i}, Slice: Slice{Bytes: bytes}}
	})
}

// nvlsCopies joins the actions of a loop for the heads whose parts have the same size.
func (c *Call) nvlsCopies(loops []nvlsLoop, ranks []int, one func(h int, bytes uint64) Action) Program {
	var prog Program
	for _, loop := range loops {
		l := Loop{Repeat: loop.repeat, Role: NVLSCopy}
		for h := range ranks {
			a := one(h, loop.part(h)*c.shape().elem)
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

// nvlsHead is what head h of a node does: reduce and broadcast its part, over a tree of the nodes if there are several.
func (c *Call) nvlsHead(p *Plan, channel, node, h int, loops []nvlsLoop) []Program {
	ranks := c.ranksOf[node]
	head := ranks[h]
	var parts, copies []int
	for _, r := range ranks {
		if c.Coll != nccl.AllGather {
			parts = append(parts, p.connOf(r, head, channel, Steps, Reduces))
		}
		if c.Coll != nccl.ReduceScatter {
			copies = append(copies, p.connOf(head, r, channel, Steps, Broadcast))
		}
	}
	up, down := -1, []int(nil)
	if c.Algo == NVLSTree {
		up, down = doubleTree(c.nodes, node, channel%2)
	}
	var fromDown, toDown []int
	for _, n := range down {
		fromDown = append(fromDown, p.conn(c.ranksOf[n][h], head, channel, Steps))
		toDown = append(toDown, p.conn(head, c.ranksOf[n][h], channel, Steps))
	}
	program := func(recv, send []int) Program {
		var prog Program
		for _, loop := range loops {
			a := Action{Recv: recv, Send: send, Slice: Slice{Bytes: loop.part(h) * c.shape().elem}}
			prog = append(prog, Loop{Actions: []Action{a}, Repeat: loop.repeat, Role: NVLSHead})
		}
		return prog
	}
	join := func(a, b []int) []int { return append(append([]int(nil), a...), b...) }
	if up < 0 {
		return []Program{program(join(parts, fromDown), join(copies, toDown))}
	}
	parent := c.ranksOf[up][h]
	return []Program{
		program(join(parts, fromDown), []int{p.conn(head, parent, channel, Steps)}),
		program([]int{p.conn(parent, head, channel, Steps)}, join(copies, toDown)),
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
