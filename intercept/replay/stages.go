// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
)

// stage is what one rank does in one call on one channel: its connections in both directions.
type stage struct{ in, out []stream }

// stream is the messages of one connection in one call and channel, in order.
type stream struct {
	peer     int
	messages []int
}

type stageKey struct{ job, rank, channel int }

// stagesOf are the stages of a call.
func (g *graph) stagesOf(c *messages.Call) map[stageKey]*stage {
	streams := map[int][]int{} // the messages of each flow
	var order []int
	for _, i := range c.Messages {
		m := &g.trace.Messages[i]
		f := g.recorded.FlowOf[i]
		if f < 0 || !m.Received || m.Channel < 0 {
			continue
		}
		if streams[f] == nil {
			order = append(order, f)
		}
		streams[f] = append(streams[f], i)
	}
	stages := map[stageKey]*stage{}
	of := func(key stageKey) *stage {
		if stages[key] == nil {
			stages[key] = &stage{}
		}
		return stages[key]
	}
	for _, f := range order {
		all := streams[f]
		slices.SortFunc(all, func(a, b int) int { return cmp.Compare(g.recorded.At[a], g.recorded.At[b]) })
		m := &g.trace.Messages[all[0]]
		sender, receiver := of(stageKey{m.Job, m.Sender, m.Channel}), of(stageKey{m.Job, m.Receiver, m.Channel})
		sender.out = append(sender.out, stream{m.Receiver, all})
		receiver.in = append(receiver.in, stream{m.Sender, all})
	}
	return stages
}

// opQueue is the operations of a proxy that it handles one after another: of a connection of collectives, or of all
// connections of a rank's channel for sends, or for receives.
type opQueue struct {
	flow               int // of collectives; of sends and receives -1
	comm               uint64
	job, rank, channel int
	recv               bool
}

// queueOf is the queue of message i.
func (g *graph) queueOf(i int, recv bool) opQueue {
	m := &g.trace.Messages[i]
	task := &g.trace.Tasks[m.Task()]
	if !task.IsP2P() {
		return opQueue{flow: g.recorded.FlowOf[i], recv: recv}
	}
	q := opQueue{flow: -1, comm: task.Comm, job: m.Job, rank: m.Sender, channel: m.Channel, recv: recv}
	if recv {
		q.rank = m.Receiver
	}
	return q
}

// asRecorded is for a call whose plan is not known: each post waits for the last messages that its rank had got, and
// that were complete on its connection, when it was recorded. The sends of a program do not wait for its receives.
func (g *graph) asRecorded(call int, stages map[stageKey]*stage) {
	last := map[opQueue][]int32{}
	for key, st := range stages {
		k := g.partAt[rankKey{call, key.job, key.rank}]
		for _, s := range st.out {
			first, end := s.messages[0], s.messages[len(s.messages)-1]
			g.afterAll(posted(first), append(g.queues[g.queueOf(first, false)], g.begin(k)))
			for j, i := range s.messages {
				g.afterSeen(posted(i), s.messages[:j], complete)
				for _, in := range st.in {
					if !g.trace.Tasks[g.trace.Messages[i].Task()].IsP2P() {
						g.afterSeen(posted(i), in.messages, visible)
					}
				}
			}
			g.ends[k] = append(g.ends[k], posted(end))
			last[g.queueOf(end, false)] = append(last[g.queueOf(end, false)], complete(end))
		}
		for _, s := range st.in {
			first, end := s.messages[0], s.messages[len(s.messages)-1]
			g.opens(k, first)
			for j, i := range s.messages {
				g.afterSeen(received(i), s.messages[:j], visible)
			}
			g.ends[k] = append(g.ends[k], visible(end))
			last[g.queueOf(end, true)] = append(last[g.queueOf(end, true)], visible(end), g.begin(k))
		}
	}
	for q, nodes := range last {
		g.queues[q] = nodes
	}
}

// afterSeen makes a post wait for the last one of messages that was there before it.
func (g *graph) afterSeen(post int32, all []int, seen func(int) int32) {
	n, _ := slices.BinarySearchFunc(all, g.at[post]+1,
		func(m int, t int64) int { return cmp.Compare(g.at[seen(m)], t) })
	if n > 0 {
		g.after(post, seen(all[n-1]))
	}
}

// opens makes the first receive of a connection in part k wait for its queue, and for the program to make the call.
func (g *graph) opens(k, first int) {
	g.afterAll(received(first), g.queues[g.queueOf(first, true)])
	g.parts[k].opened = append(g.parts[k].opened, first)
}
