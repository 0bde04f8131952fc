// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
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
	for _, i := range c.Messages {
		m := &g.trace.Messages[i]
		if f := g.recorded.FlowOf[i]; f >= 0 && m.Received && m.Channel >= 0 {
			streams[f] = append(streams[f], i)
		}
	}
	stages := map[stageKey]*stage{}
	of := func(key stageKey) *stage {
		if stages[key] == nil {
			stages[key] = &stage{}
		}
		return stages[key]
	}
	for _, f := range slices.Sorted(maps.Keys(streams)) {
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

// asRecorded is for a call whose plan is not known. Its posts keep step with the messages of their own connections and,
// but for sends and receives, with those that enter and leave the rank's node, which passes them on: see inStep.
func (g *graph) asRecorded(c *recordedCall) {
	last, nodes, slots := map[opQueue][]int32{}, map[stageKey]*stage{}, 1
	for key, st := range c.stages {
		if key.rank = g.nodeOf(key.job, key.rank); nodes[key] == nil {
			nodes[key] = &stage{}
		}
		if of := nodes[key]; !c.task.IsP2P() {
			of.in, of.out, slots = append(of.in, st.in...), append(of.out, st.out...), plan.Steps
		}
	}
	for key, st := range c.stages {
		k := g.partAt[rankKey{c.number, key.job, key.rank}]
		key.rank = g.nodeOf(key.job, key.rank)
		for _, s := range st.out {
			first, end := s.messages[0], s.messages[len(s.messages)-1]
			q := g.queueOf(first, false)
			g.afterAll(posted(first), append(slices.Clip(g.queues[q]), g.begin(k)))
			g.inStep(s.messages, posted, s.messages, complete, slots)
			for _, in := range nodes[key].in {
				g.inStep(s.messages, posted, in.messages, visible, 0)
			}
			g.ends[k], last[q] = append(g.ends[k], posted(end)), append(last[q], complete(end))
		}
		for _, s := range st.in {
			first, end := s.messages[0], s.messages[len(s.messages)-1]
			q := g.queueOf(first, true)
			g.opens(k, first)
			g.inStep(s.messages, received, s.messages, visible, 1)
			for _, out := range nodes[key].out {
				g.inStep(s.messages, received, out.messages, posted, 1)
				g.inStep(s.messages, received, out.messages, complete, len(s.messages))
			}
			g.ends[k], last[q] = append(g.ends[k], visible(end)), append(last[q], visible(end), g.begin(k))
		}
	}
	maps.Copy(g.queues, last)
}

// inStep makes the posts of a connection wait for others' messages at the distance, in messages, that the post had for
// which the fewest were there, or at least at a given one; and for what has happened at their moment.
func (g *graph) inStep(posts []int, post func(int) int32, others []int, there func(int) int32, distance int) {
	for j, i := range posts {
		n, _ := slices.BinarySearchFunc(others, g.at[post(i)]+1,
			func(m int, t int64) int { return cmp.Compare(g.at[there(m)], t) })
		distance = max(distance, j+1-n)
		if n == 0 {
			continue
		}
		last := there(others[n-1])
		// A message is visible at a moment because it has come then, if its receive is older; and the same of a send.
		if since := pairOf(last); g.at[last] == g.at[post(i)] && g.at[since] < g.at[last] {
			g.after(post(i), last)
		}
	}
	for j := distance; j < len(posts) && j-distance < len(others); j++ {
		g.after(post(posts[j]), there(others[j-distance]))
	}
}

// nodeOf is the node of a rank, -1 if it is not known.
func (g *graph) nodeOf(job, rank int) int {
	if node, ok := g.trace.Nodes[[2]int{job, rank}]; ok {
		return node
	}
	return -1
}

// opens makes the first receive of a connection in part k wait for its queue, and for the program to make the call.
func (g *graph) opens(k, first int) {
	g.afterAll(received(first), g.queues[g.queueOf(first, true)])
	g.parts[k].opened = append(g.parts[k].opened, first)
}
