// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// shares are the places of each send and each receive in the buffer that it shares; 0: it shares none.
type shares struct{ send, receive []uint8 }

// findShares finds the sends and receives that share places.
func (g *graph) findShares() {
	n := len(g.trace.Messages)
	g.shares = shares{make([]uint8, n), make([]uint8, n)}
	for i := range g.trace.Calls {
		c := &g.trace.Calls[i]
		if len(c.Tasks) == 0 || !scheduleOf(&g.trace.Tasks[c.Tasks[0]]).p2p {
			continue
		}
		stages, _ := g.stagesOf(c)
		for _, st := range stages {
			g.share(st.out, g.shares.send, posted, complete)
			g.share(st.in, g.shares.receive, received, visible)
		}
	}
}

// share divides plan.SharedSteps places among streams that the proxy handles at the same time: those that it has begun
// before one of them was done. It begins the next ones when all are done.
func (g *graph) share(streams []stream, slots []uint8, post, done func(int) int32) {
	streams = slices.Clone(streams)
	begin := func(s stream) int64 { return g.at[post(s.messages[0])] }
	slices.SortStableFunc(streams, func(a, b stream) int { return cmp.Compare(begin(a), begin(b)) })
	for len(streams) > 0 {
		n, end := 0, int64(0)
		for ; n < len(streams) && (n == 0 || begin(streams[n]) < end); n++ {
			end = max(end, g.at[done(streams[n].messages[len(streams[n].messages)-1])])
		}
		for _, s := range streams[:n] {
			for _, i := range s.messages {
				slots[i] = uint8(max(1, min(plan.Steps, plan.SharedSteps/n)))
			}
		}
		streams = streams[n:]
	}
}

// sendSlots is how many messages of a connection have a place in the buffer that message i is sent from.
func (g *graph) sendSlots(s schedule, i int) int { return cmp.Or(int(g.shares.send[i]), s.slots) }

// receiveSlots is the same of the buffer that message i is received in.
func (g *graph) receiveSlots(s schedule, i int) int { return cmp.Or(int(g.shares.receive[i]), s.slots) }
