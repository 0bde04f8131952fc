// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// NCCL's schedules, as shaper/nccl/expect plays them: what a kernel must have received before it sends, and how
// many messages of a connection have a place in its buffer.

// stage is what one rank does in one call on one channel: its connections in both directions, each with
// its messages of this call in order.
type stage struct {
	in, out []stream
}

// stream is the messages of one connection in one call and channel.
type stream struct {
	peer     int
	messages []int
}

// stageKey names a stage, or the stages of all ranks of a node.
type stageKey struct{ job, rank, channel int }

// schedule is the known part of a call's schedule.
type schedule struct {
	task  *messages.Task
	p2p   bool
	slots int // messages in a connection's buffer, if it is not shared
	slice int // messages of a chunk
	loop  int // messages of a connection in a loop of the algorithm, 0: unknown
}

func scheduleOf(t *messages.Task) schedule {
	s := schedule{task: t, p2p: t.Func == "Send" || t.Func == "Recv", slots: plan.Steps, slice: 1}
	around := t.Func == "AllReduce" || t.Func == "AllGather" || t.Func == "ReduceScatter"
	if t.Algo == "Ring" && around {
		if t.Proto == "Simple" {
			s.slots, s.slice = plan.Steps/plan.SliceSteps, plan.ChunkSteps/plan.SliceSteps
		}
		s.loop = (t.Ranks - 1) * s.slice
		if t.Func == "AllReduce" {
			s.loop *= 2
		}
	}
	return s
}

// addRules adds what NCCL's schedule says about a call.
func (g *graph) addRules(call int) {
	c := &g.trace.Calls[call]
	if len(c.Tasks) == 0 {
		return
	}
	s := scheduleOf(&g.trace.Tasks[c.Tasks[0]])
	stages, nodes := g.stagesOf(c)
	planned := g.plans[call]
	if planned != nil {
		g.endParts(call, planned)
	}
	for key, st := range stages {
		part, known := g.partAt[rankKey{call, key.job, key.rank}]
		for _, out := range st.out {
			g.sendRules(s, key, st, out, nodes, planned)
			if known {
				g.after(posted(out.messages[0]), g.begin(part))
				if before := g.placeFor(s, out.messages[len(out.messages)-1]); planned == nil && before >= 0 {
					g.ifBefore(g.end(part), complete(before))
				}
			}
		}
		for _, in := range st.in {
			g.receiveRules(s, key, st, in, planned)
			if known {
				g.ifBefore(received(in.messages[0]), g.begin(part))
				for _, i := range in.messages[min(g.receiveSlots(s, in.messages[0]), len(in.messages)):] {
					g.ifBefore(received(i), g.begin(part)) // before, the kernel reads nothing
				}
				if planned == nil {
					g.after(g.end(part), visible(in.messages[len(in.messages)-1]))
				}
			}
		}
	}
	for key, st := range stages {
		g.lastStage[key] = *st
		for _, in := range st.in {
			last := g.readAfter(s, st, in, len(in.messages)-1, planned)
			if part, known := g.partAt[rankKey{call, key.job, key.rank}]; known {
				last = append(last[:len(last):len(last)], g.begin(part))
			}
			g.lastRead[g.recorded.FlowOf[in.messages[0]]] = last
		}
	}
}

// findPlans finds the plans of the calls with messages.
func (g *graph) findPlans() {
	g.plans = make([]*planned, len(g.trace.Calls))
	for i := range g.trace.Calls {
		c := &g.trace.Calls[i]
		if len(c.Tasks) == 0 {
			continue
		}
		stages, _ := g.stagesOf(c)
		if len(stages) == 0 {
			continue
		}
		g.calls++
		if g.plans[i] = g.planOf(i, scheduleOf(&g.trace.Tasks[c.Tasks[0]]), stages); g.plans[i] == nil {
			g.byRules++
		}
	}
}

// endParts makes each rank's kernel of a call end when its programs have.
func (g *graph) endParts(call int, p *planned) {
	for rank, number := range p.ranks {
		part, known := g.partAt[rankKey{call, rank[0], rank[1]}]
		for _, n := range p.ends[number] {
			if known {
				g.after(g.end(part), n)
			}
		}
	}
}

// stagesOf are the stages of a call, and those of its nodes: the streams that enter them.
func (g *graph) stagesOf(c *messages.Call) (stages, nodes map[stageKey]*stage) {
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
	stages, nodes = map[stageKey]*stage{}, map[stageKey]*stage{}
	of := func(all map[stageKey]*stage, key stageKey) *stage {
		if all[key] == nil {
			all[key] = &stage{}
		}
		return all[key]
	}
	for _, f := range order {
		all := streams[f]
		slices.SortFunc(all, func(a, b int) int { return cmp.Compare(g.recorded.At[a], g.recorded.At[b]) })
		m := &g.trace.Messages[all[0]]
		sender := of(stages, stageKey{m.Job, m.Sender, m.Channel})
		sender.out = append(sender.out, stream{m.Receiver, all})
		in := stream{m.Sender, all}
		receiver := of(stages, stageKey{m.Job, m.Receiver, m.Channel})
		receiver.in = append(receiver.in, in)
		node := of(nodes, stageKey{m.Job, g.nodeOf(m.Job, m.Receiver), m.Channel})
		node.in = append(node.in, in)
	}
	return stages, nodes
}

// nodeOf is the node of a rank, -1 if it is not known.
func (g *graph) nodeOf(job, rank int) int {
	if node, ok := g.trace.Nodes[[2]int{job, rank}]; ok {
		return node
	}
	return -1
}

// sendRules says what the messages of one outgoing stream wait for. planned is nil if the plan is not known.
func (g *graph) sendRules(s schedule, key stageKey, st *stage, out stream, nodes map[stageKey]*stage,
	planned *planned) {
	g.afterEarlierCall(out, posted, complete)
	if first := out.messages[0]; s.p2p {
		g.afterOthers(posted(first), first, slices.Concat(g.lastStage[key].out, st.out), posted, complete)
	}
	if planned != nil {
		for _, i := range out.messages {
			for _, n := range planned.posts[i] {
				g.after(posted(i), n)
			}
		}
		return
	}
	in, ranks := st.in, 1
	if len(in) == 0 && !s.p2p { // what enters the node at another rank was passed on within it
		if node := nodes[stageKey{key.job, g.nodeOf(key.job, key.rank), key.channel}]; node != nil {
			in, ranks = node.in, g.trace.RanksOn(key.job, g.nodeOf(key.job, key.rank))
		}
	}
	var feeds []stream
	if s.task.Algo == "Tree" {
		feeds = g.feeds(st, out)
	}
	slots := g.sendSlots(s, out.messages[0])
	for j, i := range out.messages {
		if j >= slots {
			g.after(posted(i), complete(out.messages[j-slots]))
		}
		switch {
		case s.p2p:
		case s.loop > 0:
			g.afterMessage(i, in, s.neededAround(j, ranks))
		case s.task.Algo == "Ring":
			g.afterMessage(i, in, j)
		case s.task.Algo == "Tree":
			g.afterMessage(i, feeds, j)
			g.afterPlaces(s, i, j, st, out)
		default:
			g.guessed++
			g.afterSeen(i, in)
		}
	}
}

// neededAround is which message a rank must have got before it sends message j around a ring, if so many
// ranks of its node have passed it on; negative: none.
func (s schedule) neededAround(j, ranks int) int {
	before := s.slice
	if at := j % s.loop; at < s.slice { // a loop begins when the last one has ended
		before = at + 1
	}
	return j - before - s.slice*(ranks-1)
}

// afterMessage makes a post wait for message number n of each stream.
func (g *graph) afterMessage(i int, in []stream, n int) {
	for _, s := range in {
		if n >= 0 && n < len(s.messages) {
			g.after(posted(i), visible(s.messages[n]))
		}
	}
}

// afterPlaces makes message j to a child in a tree wait until there is a place for it at all children: the
// kernel sends to all of them at once.
func (g *graph) afterPlaces(s schedule, i, j int, st *stage, out stream) {
	parent := g.parentOf(st)
	for _, o := range st.out {
		if out.peer == parent || o.peer == parent || o.peer == out.peer || j >= len(o.messages) {
			continue
		}
		if before := g.placeFor(s, o.messages[j]); before >= 0 {
			g.ifBefore(posted(i), complete(before))
		}
	}
}

// afterSeen makes a post wait for the last message of each stream that was there before it.
func (g *graph) afterSeen(i int, in []stream) {
	for _, s := range in {
		n, _ := slices.BinarySearchFunc(s.messages, g.at[posted(i)]+1,
			func(m int, t int64) int { return cmp.Compare(g.at[visible(m)], t) })
		if n > 0 {
			g.after(posted(i), visible(s.messages[n-1]))
		}
	}
}

// feeds are the streams of a tree that a rank must have got before it sends on another one: those of its
// children before it sends to its parent, or at the root; that of its parent before it sends to a child.
func (g *graph) feeds(st *stage, out stream) []stream {
	parent := g.parentOf(st)
	var feeds []stream
	for _, in := range st.in {
		if fromParent := in.peer == parent; parent < 0 || fromParent != (out.peer == parent) {
			feeds = append(feeds, in)
		}
	}
	return feeds
}

// parentOf is the rank above in a tree, -1 at the root. What goes to the parent is sent before anything
// comes back from it: that comes when all ranks have sent theirs.
func (g *graph) parentOf(st *stage) int {
	for _, o := range st.out {
		for _, in := range st.in {
			if in.peer == o.peer && g.at[posted(o.messages[0])] < g.at[visible(in.messages[0])] {
				return o.peer
			}
		}
	}
	return -1
}

// receiveRules says what the receives of one incoming stream wait for: a place in the buffer, which the
// kernel gives back when it has read the message.
func (g *graph) receiveRules(s schedule, key stageKey, st *stage, in stream, planned *planned) {
	first := in.messages[0]
	g.afterEarlierCall(in, received, visible)
	for _, n := range g.lastRead[g.recorded.FlowOf[first]] {
		// In a damaged ledger, first may have none before it.
		if k := g.recorded.At[first]; k == 0 || n != visible(g.recorded.Messages[g.recorded.FlowOf[first]][k-1]) {
			g.ifBefore(received(first), n)
		}
	}
	if s.p2p {
		g.afterOthers(received(first), first, slices.Concat(g.lastStage[key].in, st.in), received, visible)
	}
	for j, i := range in.messages[min(g.receiveSlots(s, first), len(in.messages)):] {
		g.after(received(i), visible(in.messages[j]))
		for _, n := range g.readAfter(s, st, in, j, planned) {
			if n != visible(in.messages[j]) {
				g.ifBefore(received(i), n)
			}
		}
	}
}

// readAfter are the moments after which a rank's kernel reads message j of an incoming stream, once it is
// there: it passes it on at once, so there must be a place for what it sends then, and what it combines it
// with must be there. planned is nil if the plan is not known.
func (g *graph) readAfter(s schedule, st *stage, in stream, j int, planned *planned) (nodes []int32) {
	if s.p2p {
		return nil
	}
	if planned != nil {
		return planned.reads[in.messages[j]]
	}
	if s.loop > 0 {
		j += s.slice
	}
	for _, out := range st.out {
		if s.task.Algo == "Tree" {
			feeds := g.feeds(st, out)
			if !slices.ContainsFunc(feeds, func(f stream) bool { return f.peer == in.peer }) {
				continue
			}
			for _, f := range feeds {
				if j < len(f.messages) && f.peer != in.peer {
					nodes = append(nodes, visible(f.messages[j]))
				}
			}
		}
		if before := g.placeFor(s, out.messages[min(j, len(out.messages)-1)]); before >= 0 {
			nodes = append(nodes, complete(before))
		}
	}
	return nodes
}

// afterOthers makes the first post of a connection's sends or receives wait for those of the channel's
// other connections that were finished by then: NCCL's progress thread handles some of them at a time.
func (g *graph) afterOthers(waits int32, first int, others []stream, post, done func(int) int32) {
	for _, o := range others {
		if o.messages[0] != first && g.at[post(o.messages[0])] < g.at[waits] {
			g.ifBefore(waits, done(o.messages[len(o.messages)-1]))
		}
	}
}

// placeFor is the message whose place in the buffer a message takes, -1 if the place was free. A send of the program
// gets no place before the proxy has finished the one before on the connection.
func (g *graph) placeFor(s schedule, i int) int {
	k := g.recorded.At[i] - g.sendSlots(s, i)
	if s.p2p {
		k = max(k, g.recorded.At[i]-g.trace.Messages[i].Step-1)
	}
	if k < 0 {
		return -1
	}
	return g.recorded.Messages[g.recorded.FlowOf[i]][k]
}

// afterEarlierCall makes the first post of a stream wait for the last message of its connection in the
// call before: NCCL's progress thread handles one operation of a connection after another.
func (g *graph) afterEarlierCall(s stream, post, done func(int) int32) {
	first := s.messages[0]
	if k := g.recorded.At[first]; k > 0 {
		g.ifBefore(post(first), done(g.recorded.Messages[g.recorded.FlowOf[first]][k-1]))
	}
}
