// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/interpret"
)

// graph is the schedule with what its steps wait for.
type graph struct {
	*interpret.Graph
	s        *schedule.Schedule
	waiters  [][]int32 // by block and step: how many steps wait for exactly this flag
	waitsFor [][]int32 // by block and step: the step of the other block whose flag ends the wait, or -1
}

func (g *graph) name(block, step int) string {
	b := &g.Blocks[block]
	line := b.Line
	if step < len(b.Steps) {
		line = b.Steps[step].Line
		if from := b.Steps[step].From; from != "" {
			return from
		}
	}
	return name(b.GPU, b.ID, step, line)
}

// newGraph finds the ends of all connections, and what steps wait for. What is wrong with them goes to r.
func newGraph(s *schedule.Schedule, r *Report) *graph {
	g := &graph{Graph: interpret.NewGraph(s), s: s}
	for n := range g.Blocks {
		b := &g.Blocks[n]
		if b.Out >= 0 {
			g.checkEnd(r, g.Edges[b.Out].Sender, n, "sends to", b.Send)
		}
		if b.In >= 0 {
			g.checkEnd(r, g.Edges[b.In].Receiver, n, "receives from", b.Recv)
		}
	}
	g.checkCounts(r)
	g.findWaits(r)
	return g
}

// checkEnd reports a block at an end of a connection at which there is another one.
func (g *graph) checkEnd(r *Report, first, n int, does string, peer int) {
	if first != n {
		b := &g.Blocks[n]
		r.add(Connection, b.Line, "GPU %d blocks %d and %d both have the connection that %s GPU %d on channel %d: "+
			"only one may", b.GPU, g.Blocks[first].ID, b.ID, does, peer, b.Channel)
	}
}

// checkCounts compares what the two ends of each connection send and receive.
func (g *graph) checkCounts(r *Report) {
	for _, c := range g.Edges {
		what := fmt.Sprintf("GPU %d to GPU %d on channel %d", c.Src, c.Dst, c.Channel)
		if c.Sender < 0 || c.Receiver < 0 {
			if c.Sender < 0 {
				b := &g.Blocks[c.Receiver]
				r.add(Connection, b.Line, "%s: GPU %d block %d receives, but nobody sends", what, c.Dst, b.ID)
			} else {
				b := &g.Blocks[c.Sender]
				r.add(Connection, b.Line, "%s: GPU %d block %d sends, but nobody receives", what, c.Src, b.ID)
			}
			continue
		}
		sender, receiver := &g.Blocks[c.Sender], &g.Blocks[c.Receiver]
		out, in := steps(sender.Block, (*schedule.Step).Sends), steps(receiver.Block, (*schedule.Step).Receives)
		for i := 0; i < len(out) && i < len(in); i++ {
			from, to := &sender.Steps[out[i]], &receiver.Steps[in[i]]
			if from.Count != to.Count {
				r.add(Mismatch, from.Line, "%s: message %d has %d chunks at its sender, %s, and %d at its receiver, %s",
					what, i,
					from.Count, g.name(c.Sender, out[i]), to.Count, g.name(c.Receiver, in[i]))
				break
			}
		}
		if len(out) != len(in) {
			r.add(Mismatch, sender.Line, "%s: block %d sends %d messages, block %d receives %d", what, sender.ID,
				len(out),
				receiver.ID, len(in))
		}
	}
}

func steps(b *schedule.Block, is func(*schedule.Step) bool) (out []int) {
	for i := range b.Steps {
		if is(&b.Steps[i]) {
			out = append(out, i)
		}
	}
	return out
}

// findWaits finds for each wait the step that ends it: the first at or behind the named one that says when it is done.
// A nop says nothing.
func (g *graph) findWaits(r *Report) {
	for n := range g.Blocks {
		steps := len(g.Blocks[n].Steps)
		g.waiters, g.waitsFor = append(g.waiters, make([]int32, steps)), append(g.waitsFor, make([]int32, steps))
	}
	for n := range g.Blocks {
		b := &g.Blocks[n]
		for k := range b.Steps {
			st := &b.Steps[k]
			g.waitsFor[n][k] = -1
			if st.DepBlock < 0 {
				continue
			}
			blocks := g.s.GPUs[b.GPU].Blocks
			if st.DepBlock >= len(blocks) || st.DepStep >= len(blocks[st.DepBlock].Steps) {
				r.add(Dependency, st.Line, "%s waits for step %d of block %d, which does not exist",
					g.name(n, k), st.DepStep, st.DepBlock)
				continue
			}
			other := g.Dependency(n, st)
			for at := st.DepStep; at < len(g.Blocks[other].Steps) && g.waitsFor[n][k] < 0; at++ {
				if o := &g.Blocks[other].Steps[at]; o.HasDep && o.Kind != schedule.NopStep {
					g.waitsFor[n][k] = int32(at)
					g.waiters[other][at]++
				}
			}
			if g.waitsFor[n][k] < 0 {
				r.add(Deadlock, st.Line,
					"%s waits for step %d of block %d for ever: neither that step nor a later one has "+
						"hasdep=\"1\", so the block never says that it is done", g.name(n, k), st.DepStep, st.DepBlock)
			}
		}
	}
}
