// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// planned is a call whose plan is known: NCCL's version, algorithm, protocol, sizes, and rings or trees are recorded,
// and the plan has exactly the recorded messages. It is not known of sends and receives, nor where ranks of a node
// pass data to each other, because the fabric does not see that.
type planned struct {
	graph  *graph
	plan   *plan.Plan
	flows  [][]int         // messages of the call, by place in Plan.Conns
	reads  map[int][]int32 // by message: the moments after which the kernel reads it
	placed func(i int) int // see graph.placeFor
}

// planOf finds the plan of a call from its messages; nil if it is not known.
func (g *graph) planOf(c *messages.Call, s schedule, stages map[stageKey]*stage) *planned {
	d, ok := g.decisionOf(c, s, stages)
	if !ok {
		return nil
	}
	for _, version := range g.versions() {
		d.Version = version
		if d.Validate() != nil {
			continue
		}
		call, err := plan.NewCall(&d, func(rank int) int { return rank })
		if err != nil {
			continue
		}
		p, err := call.Plan()
		if err != nil {
			continue
		}
		if flows := g.flowsOf(p, c, stages); flows != nil {
			return &planned{graph: g, plan: p, flows: flows, reads: map[int][]int32{},
				placed: func(i int) int { return g.placeFor(s, i) }}
		}
	}
	return nil
}

// versions are those of NCCL that the ranks have recorded.
func (g *graph) versions() []int {
	var out []int
	for i := range g.trace.Ranks {
		if v := g.trace.Ranks[i].NCCL; v > 0 && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// decisionOf is what NCCL decided on a call, as far as its tasks and messages say it.
func (g *graph) decisionOf(c *messages.Call, s schedule, stages map[stageKey]*stage) (d plan.Decision, ok bool) {
	t := s.task
	coll, err := nccl.ParseCollective(t.Func)
	if err != nil || coll.IsP2P() || t.Ranks < 2 || len(stages) == 0 {
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
	if types, err := nccl.ParseDataTypes(t.Datatype); err == nil && len(types) == 1 && coll != nccl.AllGather &&
		coll != nccl.Broadcast {
		d.ElemSize = uint64(types[0].Size()) // NCCL counts the other two in bytes
	}
	if coll.Rooted() {
		d.Root = t.Peer
	}
	ranks := ranksOf(g.trace, c)
	if len(ranks) != t.Ranks {
		return d, false
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
		ring, tree := g.neighbours(&d, ranks, stages, channel)
		if ring == nil {
			return d, false
		}
		d.Rings, d.Trees = append(d.Rings, ring), append(d.Trees, tree)
	}
	return d, true
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
// right.
func (g *graph) neighbours(d *plan.Decision, ranks map[[2]int]int, stages map[stageKey]*stage, channel int) (ring []int,
	tree []plan.Links) {
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
	first, last := slices.Index(isNext, false), slices.Index(next, -1)
	if first >= 0 && last >= 0 { // a chain, from or to the root
		next[last] = first
	}
	for r := 0; len(ring) < d.Ranks; r = max(next[r], 0) {
		ring = append(ring, r)
	}
	if d.Algo != plan.Ring { // Validate asks for what the algorithm uses
		return ring, tree
	}
	return ring, nil
}

// flowsOf are the messages of a call by the connections of its plan; nil if they are not those of the plan.
func (g *graph) flowsOf(p *plan.Plan, c *messages.Call, stages map[stageKey]*stage) [][]int {
	left := 0
	for _, st := range stages {
		for _, out := range st.out {
			left += len(out.messages)
		}
	}
	if p.Messages() != uint64(left) {
		return nil
	}
	sizes := make([][]uint64, len(p.Conns))
	for i := range p.Blocks {
		p.Blocks[i].Run(func(a *plan.Action) {
			for _, conn := range a.Send {
				if !a.KeepSend {
					sizes[conn] = append(sizes[conn], a.Bytes)
				}
			}
		})
	}
	ranks := ranksOf(g.trace, c)
	byEnds := map[[3]int][]int{}
	for key, st := range stages {
		for _, out := range st.out {
			byEnds[[3]int{ranks[[2]int{key.job, key.rank}], ranks[[2]int{key.job, out.peer}],
				key.channel}] = out.messages
		}
	}
	flows := make([][]int, len(p.Conns))
	for i, conn := range p.Conns {
		flows[i] = byEnds[[3]int{conn.Src, conn.Dst, conn.Channel}]
		same := slices.EqualFunc(flows[i], sizes[i],
			func(m int, size uint64) bool { return g.trace.Messages[m].Size == size })
		if !same {
			return nil
		}
	}
	return flows
}

// follow walks through the programs of all ranks and notes what each post waits for, and what the kernel waits for
// before it reads each message.
func (p *planned) follow() {
	for i := range p.plan.Blocks {
		for _, batch := range p.plan.Blocks[i].Batches {
			for _, prog := range batch {
				w := walk{planned: p, arrived: map[int]int{}, occupied: map[int]int{}, read: map[int]int{},
					written: map[int]int{}}
				prog.Run(w.step)
			}
		}
	}
}

// walk is how far a program is. Messages are counted from the start of the call.
type walk struct {
	*planned
	read, written map[int]int // by connection
	// arrived and occupied are 1 + the last message that the program has waited for: until it was there, or until there
	// was a place for it.
	arrived, occupied map[int]int
}

func (w *walk) step(a *plan.Action) {
	for _, i := range a.Recv {
		if !a.Empty { // the kernels of LL and LL128 do not wait for an empty message
			w.arrived[i] = max(w.arrived[i], w.read[i]+int(a.RecvAhead)+1)
		}
	}
	for _, i := range a.Send {
		w.occupied[i] = max(w.occupied[i], w.written[i]+int(a.SendAhead)+1)
	}
	var moments []int32
	for i, n := range w.arrived {
		moments = append(moments, visible(w.flows[i][n-1]))
	}
	for i, n := range w.occupied {
		if before := w.placed(w.flows[i][n-1]); before >= 0 {
			moments = append(moments, complete(before))
		}
	}
	if !a.KeepSend {
		for _, i := range a.Send {
			for _, n := range moments {
				w.graph.after(posted(w.flows[i][w.written[i]]), n)
			}
			w.written[i]++
		}
	}
	if !a.KeepRecv {
		for _, i := range a.Recv {
			w.reads[w.flows[i][w.read[i]]] = moments
			w.read[i]++
		}
	}
}
