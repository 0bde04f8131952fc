// SPDX-License-Identifier: Apache-2.0

// Package interpret executes the steps of a schedule's blocks. It decides when a block must wait: for another block's
// step, for a message, or for a free slot of a connection. What an action does is up to the user: package check
// computes symbols, nccl-plugin/drive moves bytes, package model takes time for the messages, and package p2p makes
// groups of them.
package interpret

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Graph is the blocks of a schedule, numbered over all GPUs, and the connections between them.
type Graph struct {
	Blocks []Block
	First  []int // the first block of each GPU
	Edges  []Edge
}

// Block is a block and its connections.
type Block struct {
	*schedule.Block
	GPU, ID int
	Out, In int // connections to which it sends and from which it receives, or schedule.None
}

// Edge is a connection and the blocks at its ends. If several blocks send on it, or receive, it has the first one.
type Edge struct {
	Src, Dst, Channel int // GPUs
	Sender, Receiver  int // blocks, or schedule.None
}

// NewGraph finds the connections of a schedule, in the order in which its blocks name them.
func NewGraph(s *schedule.Schedule) *Graph {
	g := &Graph{}
	numbers := map[[3]int]int{}
	conn := func(src, dst, channel int) int {
		key := [3]int{src, dst, channel}
		i, ok := numbers[key]
		if !ok {
			i = len(g.Edges)
			numbers[key] = i
			g.Edges = append(g.Edges, Edge{src, dst, channel, schedule.None, schedule.None})
		}
		return i
	}
	for gpu := range s.GPUs {
		g.First = append(g.First, len(g.Blocks))
		for id := range s.GPUs[gpu].Blocks {
			b := Block{&s.GPUs[gpu].Blocks[id], gpu, id, schedule.None, schedule.None}
			if has(b.Block, (*schedule.Step).Sends) {
				b.Out = conn(gpu, b.Send, b.Channel)
				note(&g.Edges[b.Out].Sender, len(g.Blocks))
			}
			if has(b.Block, (*schedule.Step).Receives) {
				b.In = conn(b.Recv, gpu, b.Channel)
				note(&g.Edges[b.In].Receiver, len(g.Blocks))
			}
			g.Blocks = append(g.Blocks, b)
		}
	}
	return g
}

// has says whether a block has a step of a kind.
func has(b *schedule.Block, is func(*schedule.Step) bool) bool {
	for i := range b.Steps {
		if is(&b.Steps[i]) {
			return true
		}
	}
	return false
}

func note(end *int, block int) {
	if *end < 0 {
		*end = block
	}
}

// Order returns the numbers of the connections in the order of compare.
func (g *Graph) Order(compare func(a, b *Edge) int) []int {
	order := make([]int, len(g.Edges))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compare(&g.Edges[a], &g.Edges[b]) })
	return order
}

// Dependency is the block for which a step of block i waits. The step must wait for one.
func (g *Graph) Dependency(i int, st *schedule.Step) int {
	return g.First[g.Blocks[i].GPU] + st.DepBlock
}
