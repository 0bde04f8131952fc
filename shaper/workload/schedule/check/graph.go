// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// graph is the schedule with the ends of its connections. Blocks have numbers over all GPUs.
type graph struct {
	s      *schedule.Schedule
	blocks []blockInfo
	first  []int // of each GPU
	conns  []connInfo
}

type blockInfo struct {
	gpu, id  int
	b        *schedule.Block
	out, in  int     // connections, or -1
	waiters  []int32 // by step: how many steps wait for exactly this flag
	waitsFor []int32 // by step: the step of the other block whose flag ends the wait, or -1
}

type connInfo struct {
	src, dst, channel int
	sender, receiver  int // blocks, or -1
}

func (g *graph) name(block, step int) string {
	i := &g.blocks[block]
	line := i.b.Line
	if step < len(i.b.Steps) {
		line = i.b.Steps[step].Line
		if from := i.b.Steps[step].From; from != "" {
			return from
		}
	}
	return name(i.gpu, i.id, step, line)
}

// newGraph finds the ends of all connections, and what steps wait for. What is wrong with them goes to r.
func newGraph(s *schedule.Schedule, r *Report) *graph {
	g := &graph{s: s}
	byEnds := map[[3]int]int{}
	conn := func(src, dst, channel int) int {
		key := [3]int{src, dst, channel}
		i, ok := byEnds[key]
		if !ok {
			i = len(g.conns)
			byEnds[key] = i
			g.conns = append(g.conns, connInfo{src, dst, channel, -1, -1})
		}
		return i
	}
	for gpu := range s.GPUs {
		g.first = append(g.first, len(g.blocks))
		for id := range s.GPUs[gpu].Blocks {
			b := &s.GPUs[gpu].Blocks[id]
			n := len(g.blocks)
			info := blockInfo{gpu: gpu, id: id, b: b, out: -1, in: -1}
			if sends(b) > 0 {
				info.out = conn(gpu, b.Send, b.Channel)
				g.end(r, &g.conns[info.out].sender, n, b, "sends to", b.Send, gpu, id)
			}
			if receives(b) > 0 {
				info.in = conn(b.Recv, gpu, b.Channel)
				g.end(r, &g.conns[info.in].receiver, n, b, "receives from", b.Recv, gpu, id)
			}
			g.blocks = append(g.blocks, info)
		}
	}
	g.checkCounts(r)
	g.findWaits(r)
	return g
}

// end notes that a block is one end of a connection.
func (g *graph) end(r *Report, at *int, n int, b *schedule.Block, does string, peer, gpu, id int) {
	if *at >= 0 {
		r.add(Connection, b.Line, "GPU %d blocks %d and %d both have the connection that %s GPU %d on channel %d: only one may", gpu, g.blocks[*at].id, id, does, peer, b.Channel)
		return
	}
	*at = n
}

func moves(st *schedule.Step) bool { return st.Kind != schedule.NopStep && st.Count > 0 }

func sends(b *schedule.Block) (n int) {
	for i := range b.Steps {
		if st := &b.Steps[i]; moves(st) && st.Kind.Sends() {
			n++
		}
	}
	return n
}

func receives(b *schedule.Block) (n int) {
	for i := range b.Steps {
		if st := &b.Steps[i]; moves(st) && st.Kind.Receives() {
			n++
		}
	}
	return n
}

// checkCounts compares what the two ends of each connection send and receive.
func (g *graph) checkCounts(r *Report) {
	for _, c := range g.conns {
		what := fmt.Sprintf("GPU %d to GPU %d on channel %d", c.src, c.dst, c.channel)
		if c.sender < 0 || c.receiver < 0 {
			if c.sender < 0 {
				r.add(Connection, g.blocks[c.receiver].b.Line, "%s: GPU %d block %d receives, but nobody sends", what, c.dst, g.blocks[c.receiver].id)
			} else {
				r.add(Connection, g.blocks[c.sender].b.Line, "%s: GPU %d block %d sends, but nobody receives", what, c.src, g.blocks[c.sender].id)
			}
			continue
		}
		out, in := steps(g.blocks[c.sender].b, schedule.Kind.Sends), steps(g.blocks[c.receiver].b, schedule.Kind.Receives)
		for i := 0; i < len(out) && i < len(in); i++ {
			from, to := g.blocks[c.sender].b.Steps[out[i]], g.blocks[c.receiver].b.Steps[in[i]]
			if from.Count != to.Count {
				r.add(Mismatch, from.Line, "%s: message %d has %d chunks at its sender, %s, and %d at its receiver, %s", what, i, from.Count, g.name(c.sender, out[i]), to.Count, g.name(c.receiver, in[i]))
				break
			}
		}
		if len(out) != len(in) {
			r.add(Mismatch, g.blocks[c.sender].b.Line, "%s: block %d sends %d messages, block %d receives %d", what, g.blocks[c.sender].id, len(out), g.blocks[c.receiver].id, len(in))
		}
	}
}

func steps(b *schedule.Block, is func(schedule.Kind) bool) (out []int) {
	for i := range b.Steps {
		if st := &b.Steps[i]; moves(st) && is(st.Kind) {
			out = append(out, i)
		}
	}
	return out
}

// findWaits finds for each wait the step that ends it: the first at or behind the named one that says when it is done.
// A nop says nothing.
func (g *graph) findWaits(r *Report) {
	for n := range g.blocks {
		i := &g.blocks[n]
		i.waiters, i.waitsFor = make([]int32, len(i.b.Steps)), make([]int32, len(i.b.Steps))
	}
	for n := range g.blocks {
		i := &g.blocks[n]
		for k := range i.b.Steps {
			st := &i.b.Steps[k]
			i.waitsFor[k] = -1
			if st.DepBlock < 0 {
				continue
			}
			blocks := g.s.GPUs[i.gpu].Blocks
			if st.DepBlock >= len(blocks) || st.DepStep >= len(blocks[st.DepBlock].Steps) {
				r.add(Dependency, st.Line, "%s waits for step %d of block %d, which does not exist", g.name(n, k), st.DepStep, st.DepBlock)
				continue
			}
			other := &g.blocks[g.first[i.gpu]+st.DepBlock]
			for at := st.DepStep; at < len(other.b.Steps) && i.waitsFor[k] < 0; at++ {
				if o := &other.b.Steps[at]; o.HasDep && o.Kind != schedule.NopStep {
					i.waitsFor[k] = int32(at)
					other.waiters[at]++
				}
			}
			if i.waitsFor[k] < 0 {
				r.add(Deadlock, st.Line, "%s waits for step %d of block %d for ever: neither that step nor a later one has hasdep=\"1\", so the block never says that it is done", g.name(n, k), st.DepStep, st.DepBlock)
			}
		}
	}
}
