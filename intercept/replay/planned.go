// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// planned is a call whose plan is known: NCCL's version, algorithm, protocol, sizes, and rings or trees are recorded,
// and the plan has exactly the recorded messages. It is not known of sends and receives.
type planned struct {
	graph  *graph
	call   int
	plan   *plan.Plan
	flows  [][]int         // messages of the call, by place in Plan.Conns; nil within a node
	local  []local         // by place in Plan.Conns
	placed func(i int) int // see graph.placeFor

	posts map[int][]int32 // by message: the moments after which it is posted
	reads map[int][]int32 // by message: the moments after which the kernel reads it
	ends  map[int][]int32 // by rank of the communicator: the moments after which its kernel ends
	ranks map[[2]int]int  // of the communicator, by job and rank
}

// planOf finds the plan of a call from its messages; nil if it is not known.
func (g *graph) planOf(call int, s schedule, stages map[stageKey]*stage) *planned {
	ranks := ranksOf(g.trace, &g.trace.Calls[call])
	d, nodes, ok := g.decisionOf(ranks, s, stages)
	if !ok {
		return nil
	}
	for _, version := range g.versions {
		d.Version = version
		if d.Validate() != nil {
			continue
		}
		of, err := plan.NewCall(&d, func(rank int) int { return nodes[rank] })
		if err != nil {
			continue
		}
		p, err := of.Plan()
		if err != nil {
			continue
		}
		if flows := g.flowsOf(p, ranks, nodes, stages); flows != nil {
			out := &planned{graph: g, call: call, plan: p, flows: flows, ranks: ranks,
				placed: func(i int) int { return g.placeFor(s, i) },
				posts:  map[int][]int32{}, reads: map[int][]int32{}, ends: map[int][]int32{}}
			out.follow()
			return out
		}
	}
	return nil
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

// decisionOf is what NCCL decided on a call, as far as its tasks and messages say it, and the nodes of its ranks.
func (g *graph) decisionOf(ranks map[[2]int]int, s schedule, stages map[stageKey]*stage) (d plan.Decision, nodes []int,
	ok bool) {
	t := s.task
	coll, err := nccl.ParseCollective(t.Func)
	if err != nil || coll.IsP2P() || t.Ranks < 2 || len(stages) == 0 {
		return d, nil, false
	}
	algo, err := plan.ParseAlgorithm(t.Algo)
	if err != nil {
		return d, nil, false
	}
	proto, err := plan.ParseProtocol(t.Proto)
	if err != nil {
		return d, nil, false
	}
	d = plan.Decision{Coll: coll, Algo: algo, Proto: proto, Ranks: t.Ranks, Count: t.Count, ElemSize: 1}
	if types, err := nccl.ParseDataTypes(t.Datatype); err == nil && len(types) == 1 && coll != nccl.AllGather &&
		coll != nccl.Broadcast {
		d.ElemSize = uint64(types[0].Size()) // NCCL counts the other two in bytes
	}
	if coll.Rooted() {
		d.Root = t.Peer
	}
	if nodes = g.nodesOf(ranks, t.Ranks); nodes == nil {
		return d, nil, false
	}
	used := map[int]bool{}
	for key := range stages {
		if key.channel < plan.MaxChannels {
			used[key.channel] = true
			d.Channels = max(d.Channels, key.channel+1)
		}
	}
	d.UsedChannels = len(used)
	for channel := range d.Channels {
		ring, tree := g.neighbours(&d, ranks, nodes, stages, channel)
		if ring == nil {
			return d, nil, false
		}
		d.Rings, d.Trees = append(d.Rings, ring), append(d.Trees, tree)
	}
	return d, nodes, true
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
		if rank >= 0 && rank < n {
			nodes[rank] = g.nodeOf(of[0], of[1])
		}
	}
	if slices.Contains(nodes, -1) {
		return nil
	}
	return nodes
}

// ranksOf are the ranks of a call's communicator, by job and rank.
func ranksOf(t *messages.Trace, c *messages.Call) map[[2]int]int {
	ranks := map[[2]int]int{}
	for _, i := range c.Tasks {
		ranks[[2]int{t.Tasks[i].Job, t.Tasks[i].Owner}] = t.Tasks[i].Rank
	}
	return ranks
}

// neighbours are the ring and the tree of a channel, as its messages show them: the one that the algorithm uses is
// right. The fabric does not see what ranks of a node send to each other: see ringOf.
func (g *graph) neighbours(d *plan.Decision, ranks map[[2]int]int, nodes []int, stages map[stageKey]*stage,
	channel int) (ring []int, tree []plan.Links) {
	next, isNext := make([]int, d.Ranks), make([]bool, d.Ranks)
	for r := range next {
		next[r] = -1
	}
	tree = make([]plan.Links, d.Ranks)
	for key, st := range stages {
		me, ok := ranks[[2]int{key.job, key.rank}]
		if key.channel != channel || !ok || me < 0 || me >= d.Ranks {
			continue
		}
		parent := g.parentOf(st)
		tree[me].Up = -1
		for _, o := range st.out {
			peer, ok := ranks[[2]int{key.job, o.peer}]
			if !ok || peer < 0 || peer >= d.Ranks {
				return nil, nil
			}
			next[me] = peer
			isNext[peer] = true
			if o.peer == parent {
				tree[me].Up = peer
			} else {
				tree[me].Down = append(tree[me].Down, peer)
			}
		}
		slices.Sort(tree[me].Down)
	}
	return ringOf(d, next, isNext, nodes), tree
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

// flowsOf are the messages of a call by the connections of its plan; nil if they are not those of the plan.
func (g *graph) flowsOf(p *plan.Plan, ranks map[[2]int]int, nodes []int, stages map[stageKey]*stage) [][]int {
	byEnds := map[[3]int][]int{}
	left := 0
	for key, st := range stages {
		for _, out := range st.out {
			left += len(out.messages)
			byEnds[[3]int{ranks[[2]int{key.job, key.rank}], ranks[[2]int{key.job, out.peer}],
				key.channel}] = out.messages
		}
	}
	between := func(conn int) bool { return nodes[p.Conns[conn].Src] != nodes[p.Conns[conn].Dst] }
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

// follow walks through the programs of all ranks and notes what each post waits for, and what the kernel waits for
// before it reads each message. A program that waits for another one of its node lets it go on.
func (p *planned) follow() {
	p.local = make([]local, len(p.flows))
	begins := p.begins()
	var walks []*walk
	for i := range p.plan.Blocks {
		for _, batch := range p.plan.Blocks[i].Batches {
			for _, prog := range batch {
				rank := p.plan.Blocks[i].Rank
				w := &walk{planned: p, rank: rank, begin: -1, Cursor: prog.Start(), read: map[int]int{},
					written: map[int]int{}, state: state{map[int]int{}, map[int]int{}, map[int32]bool{}}}
				if n, known := begins[rank]; known {
					w.begin = n
				}
				walks = append(walks, w)
			}
		}
	}
	for more := true; more; {
		more = false
		for _, w := range walks {
			for a := w.Action(); a != nil && w.isReady(a); a = w.Action() {
				w.step(a)
				w.Advance()
				more = true
			}
		}
	}
	for _, w := range walks {
		p.ends[w.rank] = append(p.ends[w.rank], w.moments()...)
	}
}

// local is a connection within a node, which the fabric does not see: what its messages and its places have waited for.
type local struct{ sent, freed []state }

// state is what a program has waited for.
type state struct {
	// arrived and occupied are 1 + the last message of each connection between nodes: until it was there, or until
	// there was a place for it. Messages are counted from the start of the call.
	arrived, occupied map[int]int
	begun             map[int32]bool // moments at which other ranks of the node have begun the call
}

func (s state) clone() state {
	return state{maps.Clone(s.arrived), maps.Clone(s.occupied), maps.Clone(s.begun)}
}

// add adds what another program has waited for.
func (s state) add(other state) {
	for i, n := range other.arrived {
		s.arrived[i] = max(s.arrived[i], n)
	}
	for i, n := range other.occupied {
		s.occupied[i] = max(s.occupied[i], n)
	}
	maps.Copy(s.begun, other.begun)
}

// begins are the moments at which the ranks of the communicator begin the call.
func (p *planned) begins() map[int]int32 {
	out := map[int]int32{}
	for of, rank := range p.ranks {
		if k, known := p.graph.partAt[rankKey{p.call, of[0], of[1]}]; known {
			out[rank] = p.graph.begin(k)
		}
	}
	return out
}

// walk is how far a program is.
type walk struct {
	*planned
	rank  int
	begin int32 // of the rank, -1 if it is not known
	plan.Cursor
	state
	read, written map[int]int // messages by connection
}

// isReady says whether other programs of the node are as far as an action needs.
func (w *walk) isReady(a *plan.Action) bool {
	for _, i := range a.Recv {
		if w.flows[i] == nil && !a.Empty && len(w.local[i].sent) <= w.read[i]+int(a.RecvAhead) {
			return false
		}
	}
	for _, i := range a.Send {
		if w.flows[i] == nil && len(w.local[i].freed) < w.place(i, a) {
			return false
		}
	}
	return true
}

// place is 1 + the message within a node whose place a program needs for an action; less than 1: none.
func (w *walk) place(i int, a *plan.Action) int {
	return w.written[i] + int(a.SendAhead) + 1 - int(w.plan.Conns[i].SendSlots)
}

func (w *walk) step(a *plan.Action) {
	for _, i := range a.Recv {
		switch n := w.read[i] + int(a.RecvAhead) + 1; {
		case a.Empty: // the kernels of LL and LL128 do not wait for an empty message
		case w.flows[i] == nil:
			w.add(w.local[i].sent[n-1])
		default:
			w.arrived[i] = max(w.arrived[i], n)
		}
	}
	for _, i := range a.Send {
		if w.flows[i] != nil {
			w.occupied[i] = max(w.occupied[i], w.written[i]+int(a.SendAhead)+1)
		} else if n := w.place(i, a); n > 0 {
			w.add(w.local[i].freed[n-1])
		}
	}
	moments := w.moments()
	if !a.KeepSend {
		for _, i := range a.Send {
			w.send(i, moments)
		}
	}
	if !a.KeepRecv {
		for _, i := range a.Recv {
			w.receive(i, moments)
		}
	}
}

// moments are those that the program has waited for.
func (w *walk) moments() (out []int32) {
	for i, n := range w.arrived {
		out = append(out, visible(w.flows[i][n-1]))
	}
	for i, n := range w.occupied {
		if before := w.placed(w.flows[i][n-1]); before >= 0 {
			out = append(out, complete(before))
		}
	}
	for n := range w.begun {
		if n != w.begin {
			out = append(out, n)
		}
	}
	return out
}

// passed is what another program of the node waits for with this one.
func (w *walk) passed() state {
	s := w.clone()
	if w.begin >= 0 {
		s.begun[w.begin] = true
	}
	return s
}

// send notes what the next message of a connection waits for.
func (w *walk) send(i int, moments []int32) {
	if w.flows[i] == nil {
		w.local[i].sent = append(w.local[i].sent, w.passed())
	} else {
		w.posts[w.flows[i][w.written[i]]] = moments
	}
	w.written[i]++
}

// receive notes what the kernel waits for before it reads the next message of a connection.
func (w *walk) receive(i int, moments []int32) {
	if w.flows[i] == nil {
		w.local[i].freed = append(w.local[i].freed, w.passed())
	} else {
		w.reads[w.flows[i][w.read[i]]] = moments
	}
	w.read[i]++
}
