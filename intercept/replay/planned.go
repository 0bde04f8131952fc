// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// planned is a call whose plan is known: NCCL's version, algorithm, protocol, sizes, and rings or trees are recorded,
// and the plan has exactly the recorded messages.
type planned struct {
	graph *graph
	plan  *plan.Plan
	parts []int // by rank of the communicator, -1 if it has none

	// By place in Plan.Conns: the messages of the call, nil within a node; the connections within a node; what the
	// sending proxy handles before; and the moments after which the kernel has read the last message.
	flows            [][]int
	local            []local
	queued, lastRead [][]int32
}

// recordedCall is what is recorded of a call.
type recordedCall struct {
	*messages.Call
	number  int
	task    *messages.Task      // the first one
	stages  map[stageKey]*stage // not empty
	ranks   map[[2]int]int      // of the communicator, by job and rank
	nodes   []int               // by rank of the communicator
	largest int                 // bytes of a message
}

// orderCalls says what the posts of all calls wait for.
func (g *graph) orderCalls() {
	comms := g.communicators()
	for i := range g.trace.Calls {
		c := &recordedCall{Call: &g.trace.Calls[i], number: i}
		if c.stages = g.stagesOf(c.Call); len(c.Tasks) == 0 || len(c.stages) == 0 {
			continue
		}
		g.calls++
		c.task = &g.trace.Tasks[c.Tasks[0]]
		for _, i := range c.Messages {
			c.largest = max(c.largest, int(g.trace.Messages[i].Size))
		}
		c.ranks = comms[c.Comm]
		c.nodes = g.nodesOf(c.ranks, c.task.Ranks)
		if p := g.planOf(c); p != nil {
			p.follow()
		} else {
			g.byRules++
			g.asRecorded(c)
		}
	}
}

// communicators are the ranks of all communicators, by job and rank.
func (g *graph) communicators() map[uint64]map[[2]int]int {
	comms := map[uint64]map[[2]int]int{}
	for i := range g.trace.Tasks {
		x := &g.trace.Tasks[i]
		if comms[x.Comm] == nil {
			comms[x.Comm] = map[[2]int]int{}
		}
		if x.Rank >= 0 {
			comms[x.Comm][[2]int{x.Job, x.Owner}] = x.Rank
		}
	}
	return comms
}

// planOf finds the plan of a call from its messages; nil if it is not known.
func (g *graph) planOf(c *recordedCall) *planned {
	if c.nodes == nil || c.task.Ranks < 2 {
		return nil
	}
	if c.task.IsP2P() {
		return g.planOfSends(c)
	}
	d, ok := g.decisionOf(c)
	if !ok {
		return nil
	}
	for _, d.Version = range g.versions {
		for _, buffer := range []int{0, plan.Steps * c.largest, plan.Steps / plan.SliceSteps * c.largest} {
			d.BuffSize, d.LLBuffSize, d.LL128BuffSize = buffer, buffer, buffer // 0: NCCL's default
			of, err := plan.NewCall(&d, c.node)
			if err != nil || d.Validate() != nil {
				continue
			}
			if p, err := of.Plan(); err == nil {
				if of := g.newPlanned(p, c); of != nil {
					return of
				}
			}
		}
	}
	return nil
}

func (c *recordedCall) node(rank int) int { return c.nodes[rank] }

// newPlanned is a call with a plan; nil if the recorded messages are not those of the plan.
func (g *graph) newPlanned(p *plan.Plan, c *recordedCall) *planned {
	out := &planned{graph: g, plan: p, flows: g.flowsOf(p, c), parts: make([]int, len(c.nodes))}
	if out.flows == nil {
		return nil
	}
	for of, rank := range c.ranks {
		part, ok := g.partAt[rankKey{c.number, of[0], of[1]}]
		if out.parts[rank] = part; !ok && slices.ContainsFunc(p.Blocks, func(b plan.Block) bool { return b.Rank == rank }) {
			return nil
		}
	}
	return out
}

// versionsOf are the versions of NCCL that the ranks have recorded.
func versionsOf(t *messages.Trace) []int {
	var out []int
	for i := range t.Ranks {
		if v := t.Ranks[i].NCCL; v > 0 && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// decisionOf is what NCCL decided on a collective, as far as its tasks and messages say it.
func (g *graph) decisionOf(c *recordedCall) (d plan.Decision, ok bool) {
	t := c.task
	coll, err := nccl.ParseCollective(t.Func)
	if err != nil || coll.IsP2P() {
		return d, false
	}
	algo, err := plan.ParseAlgorithm(t.Algo)
	if err != nil {
		return d, false
	}
	proto, err := plan.ParseProtocol(t.Proto)
	if err != nil {
		return d, false
	}
	d = plan.Decision{Coll: coll, Algo: algo, Proto: proto, Ranks: t.Ranks, Count: t.Count, ElemSize: 1}
	if coll != nccl.AllGather && coll != nccl.Broadcast { // NCCL counts these in bytes
		d.ElemSize = elemSize(t)
	}
	if coll.Rooted() {
		d.Root = t.Peer
	}
	used := map[int]bool{}
	for key := range c.stages {
		if key.channel < plan.MaxChannels {
			used[key.channel] = true
			d.Channels = max(d.Channels, key.channel+1)
		}
	}
	d.UsedChannels = len(used)
	for channel := range d.Channels {
		ring, tree := g.neighbours(&d, c, channel)
		if ring == nil {
			return d, false
		}
		d.Rings, d.Trees = append(d.Rings, ring), append(d.Trees, tree)
	}
	return d, true
}

// elemSize is the size in bytes of a task's type, 1 if it is not known.
func elemSize(t *messages.Task) uint64 {
	if types, err := nccl.ParseDataTypes(t.Datatype); err == nil && len(types) == 1 {
		return uint64(types[0].Size())
	}
	return 1
}

// nodesOf are the nodes of a communicator's ranks; nil if not all of them are known.
func (g *graph) nodesOf(ranks map[[2]int]int, n int) []int {
	if len(ranks) != n {
		return nil
	}
	nodes := make([]int, n)
	for i := range nodes {
		nodes[i] = -1
	}
	for of, rank := range ranks {
		if node, ok := g.trace.Nodes[of]; ok && rank < n {
			nodes[rank] = node
		}
	}
	if slices.Contains(nodes, -1) {
		return nil
	}
	return nodes
}

// neighbours are the ring and the tree of a channel, as its messages show them: the one that the algorithm uses is
// right. The fabric does not see what ranks of a node send to each other: see ringOf.
func (g *graph) neighbours(d *plan.Decision, c *recordedCall, channel int) (ring []int, tree []plan.Links) {
	next, isNext := make([]int, d.Ranks), make([]bool, d.Ranks)
	for r := range next {
		next[r] = -1
	}
	tree = slices.Repeat([]plan.Links{{Up: -1}}, d.Ranks)
	for key, st := range c.stages {
		me, ok := c.ranks[[2]int{key.job, key.rank}]
		if key.channel != channel || !ok {
			continue
		}
		parent := g.parentOf(st)
		for _, o := range st.out {
			peer, ok := c.ranks[[2]int{key.job, o.peer}]
			if !ok {
				return nil, nil
			}
			next[me], isNext[peer] = peer, true
			if o.peer == parent {
				tree[me].Up = peer
			} else {
				tree[me].Down = append(tree[me].Down, peer)
			}
		}
		slices.Sort(tree[me].Down)
	}
	joinNodes(tree, c.nodes)
	return ringOf(d, next, isNext, c.nodes), tree
}

// joinNodes makes a chain of the ranks of each node in a tree. The first one is the rank with a parent on another node.
// The order of the others is not known. It takes no time: whatever reaches the node's ranks has reached the first one.
func joinNodes(tree []plan.Links, nodes []int) {
	last := map[int]int{} // of the chain of each node
	for r, node := range nodes {
		if tree[r].Up >= 0 {
			last[node] = r
		}
	}
	for r, node := range nodes {
		end, ok := last[node]
		if tree[r].Up >= 0 {
			continue
		}
		if ok {
			tree[r].Up, tree[end].Down = end, append(tree[end].Down, r)
		}
		last[node] = r
	}
}

// ringOf is the ring of a channel. next is the rank of another node to which a rank sends, -1 for none, and isNext says
// whether a rank receives from another node: the first one of its node does, and the last one sends. The order of those
// between is not known. It takes no time, and matters only to sizes, which are compared with those of the plan.
func ringOf(d *plan.Decision, next []int, isNext []bool, nodes []int) []int {
	place := func(r int) int {
		switch {
		case isNext[r]:
			return 0
		case next[r] >= 0:
			return 4
		case r == d.Root && d.Coll == nccl.Broadcast: // a chain, from the root
			return 1
		case r == d.Root && d.Coll == nccl.Reduce:
			return 3
		}
		return 2
	}
	of := map[int][]int{} // by node
	for r, node := range nodes {
		of[node] = append(of[node], r)
	}
	for _, ranks := range of {
		slices.SortStableFunc(ranks, func(a, b int) int { return place(a) - place(b) })
	}
	first, last := -1, -1 // of a chain
	for r, node := range nodes {
		ranks := of[node]
		if i := slices.Index(ranks, r); i < len(ranks)-1 {
			next[r] = ranks[i+1]
		} else if next[r] < 0 {
			last = r
		}
		if r == ranks[0] && !isNext[r] {
			first = r
		}
	}
	if first >= 0 && last >= 0 {
		next[last] = first
	}
	var ring []int
	for r := 0; len(ring) < d.Ranks; r = max(next[r], 0) {
		ring = append(ring, r)
	}
	return ring
}

// parentOf is the rank above in a tree, -1 at the root. What goes to the parent is sent before anything comes back from
// it: that comes when all ranks have sent theirs.
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

// flowsOf are the messages of a call by the connections of its plan; nil if they are not those of the plan.
func (g *graph) flowsOf(p *plan.Plan, c *recordedCall) [][]int {
	byEnds := map[[3]int][]int{}
	left := 0
	for key, st := range c.stages {
		src, ok := c.ranks[[2]int{key.job, key.rank}]
		for _, out := range st.out {
			left += len(out.messages)
			if dst, known := c.ranks[[2]int{key.job, out.peer}]; ok && known {
				byEnds[[3]int{src, dst, key.channel}] = out.messages
			}
		}
	}
	between := func(conn int) bool { return c.nodes[p.Conns[conn].Src] != c.nodes[p.Conns[conn].Dst] }
	if p.Messages(between) != uint64(left) {
		return nil
	}
	sizes := make([][]uint64, len(p.Conns))
	for i := range p.Blocks {
		p.Blocks[i].Run(func(a *plan.Action) {
			for _, conn := range a.Send {
				if !a.KeepSend && between(conn) {
					sizes[conn] = append(sizes[conn], a.Bytes)
				}
			}
		})
	}
	flows := make([][]int, len(p.Conns))
	for i, conn := range p.Conns {
		if between(i) {
			flows[i] = byEnds[[3]int{conn.Src, conn.Dst, conn.Channel}]
		}
		same := slices.EqualFunc(flows[i], sizes[i],
			func(m int, size uint64) bool { return g.trace.Messages[m].Size == size })
		if !same {
			return nil
		}
	}
	return flows
}
