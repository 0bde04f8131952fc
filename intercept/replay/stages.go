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

// asRecorded is for a call whose plan is not known. Its posts keep step with the messages of their own connections and,
// but for sends and receives, with those that enter and leave the rank's node, which passes them on: see inStep.
func (g *graph) asRecorded(c *recordedCall) {
	last, nodes := map[opQueue][]int32{}, map[stageKey]*stage{}
	for key, st := range c.stages {
		if key.rank = g.nodeOf(key.job, key.rank); nodes[key] == nil {
			nodes[key] = &stage{}
		}
		if of := nodes[key]; !c.task.IsP2P() {
			of.in, of.out = append(of.in, st.in...), append(of.out, st.out...)
		}
	}
	slots, slice, loop := paceOf(c.task)
	edges := len(g.from)
	for key, st := range c.stages {
		k, node := g.partAt[rankKey{c.number, key.job, key.rank}], nodes[stageKey{key.job, g.nodeOf(key.job, key.rank),
			key.channel}]
		for _, s := range st.out {
			first, end := s.messages[0], s.messages[len(s.messages)-1]
			q := g.queueOf(first, false)
			g.after(posted(first), g.begin(k))
			g.afterAll(posted(first), g.queues[q])
			g.inStep(s.messages, posted, s.messages, complete, slots)
			ranks := g.trace.RanksOn(key.job, g.nodeOf(key.job, key.rank))
			for _, in := range node.in {
				if loop == 0 {
					g.inStep(s.messages, posted, in.messages, visible, 0)
				}
				for j := 0; loop > 0 && j < len(s.messages); j++ {
					before := slice * ranks
					if at := j % loop; at < slice { // a loop begins when the last one has ended
						before += at + 1 - slice
					}
					if n := j - before; n >= 0 && n < len(in.messages) {
						g.after(posted(s.messages[j]), visible(in.messages[n]))
					}
				}
			}
			g.ends[k], last[q] = append(g.ends[k], posted(end)), append(last[q], complete(end))
		}
		for _, s := range st.in {
			first, end := s.messages[0], s.messages[len(s.messages)-1]
			q := g.queueOf(first, true)
			g.opens(k, first)
			g.inStep(s.messages, received, s.messages, visible, 1)
			for _, out := range node.out {
				g.inStep(s.messages, received, out.messages, posted, 1)
			}
			g.ends[k], last[q] = append(g.ends[k], visible(end)), append(last[q], visible(end), g.begin(k))
		}
	}
	maps.Copy(g.queues, last)
	g.explain(c, nodes, edges)
}

// explain makes posts of a call that came later than all that they wait for, by the given and later edges, wait for
// what has happened on their node at their moment.
func (g *graph) explain(c *recordedCall, nodes map[stageKey]*stage, edges int) {
	latest := map[int32]int64{}
	for e := edges; e < len(g.from); e++ {
		if from := g.from[e]; from < g.begin(0) {
			latest[g.to[e]] = max(latest[g.to[e]], g.at[from])
		}
	}
	all := func(post int32, streams []stream, happened, since func(int) int32) {
		for _, s := range streams {
			n, same := slices.BinarySearchFunc(s.messages, g.at[post],
				func(m int, t int64) int { return cmp.Compare(g.at[happened(m)], t) })
			if same && g.at[since(s.messages[n])] < g.at[post] {
				g.after(post, happened(s.messages[n]))
			}
		}
	}
	for key, st := range c.stages {
		key.rank = g.nodeOf(key.job, key.rank)
		post := func(n int32) {
			if t, waits := latest[n]; waits && t < g.at[n] {
				all(n, nodes[key].in, visible, received)
				all(n, nodes[key].out, complete, posted)
			}
		}
		for _, s := range st.out {
			for _, i := range s.messages {
				post(posted(i))
			}
		}
		for _, s := range st.in {
			for _, i := range s.messages {
				post(received(i))
			}
		}
	}
}

// paceOf is how many messages of a connection have a place in the buffer, 1 if it is shared. Around a ring it is also
// how many messages a chunk has, and a loop.
func paceOf(t *messages.Task) (slots, slice, loop int) {
	slots, slice = plan.Steps, 1
	around := t.Algo == "Ring" && (t.Func == "AllReduce" || t.Func == "AllGather" || t.Func == "ReduceScatter")
	switch {
	case t.IsP2P():
		return 1, 0, 0
	case !around:
		return slots, 0, 0
	case t.Proto == "Simple":
		slots, slice = plan.Steps/plan.SliceSteps, plan.ChunkSteps/plan.SliceSteps
	}
	if loop = (t.Ranks - 1) * slice; t.Func == "AllReduce" {
		loop *= 2
	}
	return slots, slice, loop
}

// inStep makes the posts of a connection wait for others' messages at the distance, in messages, that the post had for
// which the fewest were there. least is a distance that NCCL keeps.
func (g *graph) inStep(posts []int, post func(int) int32, others []int, there func(int) int32, least int) {
	distance := least
	for j, i := range posts {
		n, _ := slices.BinarySearchFunc(others, g.at[post(i)]+1,
			func(m int, t int64) int { return cmp.Compare(g.at[there(m)], t) })
		distance = max(distance, j+1-n)
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
