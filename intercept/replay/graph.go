// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// A graph says what each post waits for. Its nodes are moments:
//
//	the post of a message, and of its receive; when it is visible; when it is complete for the sender;
//	when a rank begins a call, and when it has ended it; the same of a computation that the software CUDA noted
//	when a program makes a call, if ranks computed during their calls
//
// The model says when a message is visible and complete. Every other moment is that of the last one it
// waits for, and a time that stays as it was recorded: what the rank computed meanwhile.
type graph struct {
	trace    *messages.Trace
	recorded *Recorded
	at       []int64 // as recorded; by node
	from, to []int32 // edges
	late     int     // edges that were left out, because what is waited for was recorded after who waits
	parts    []part  // of calls
	partAt   map[rankKey]int
	between  Between
	jobs     []int // of the nodes behind those of messages
	opsEnd   int32 // behind the nodes of calls and computations

	versions []int                    // of NCCL, that the ranks have recorded
	ends     [][]int32                // by part: the moments after which its kernel ends
	calls    int                      // with messages
	byRules  int                      // of these, calls whose plan is not known
	settings map[uint64]plan.Decision // on sends and receives, by communicator
	queues   map[opQueue][]int32      // the moments after which the calls so far leave each queue empty
}

// part is what one rank does in one call.
type part struct {
	call, job, rank int
	sent            []int // places of messages
	opened          []int // messages with the first receives of connections
	made            int64 // by the program
	begin, end      int64 // as recorded
	first           int64 // post of a message
	begun           bool
}

// The nodes of message i.
func posted(i int) int32   { return int32(4 * i) }
func received(i int) int32 { return int32(4*i + 1) }
func visible(i int) int32  { return int32(4*i + 2) }
func complete(i int) int32 { return int32(4*i + 3) }

// pairOf is the other node of the same end of a message: posted and complete are its sender's, received and visible its
// receiver's.
func pairOf(node int32) int32 { return node/4*4 + 3 - node%4 }

// The nodes of part k.
func (g *graph) begin(k int) int32 { return int32(4*len(g.trace.Messages) + 2*k) }
func (g *graph) end(k int) int32   { return g.begin(k) + 1 }

// after says that a moment waits for another one.
func (g *graph) after(waits, other int32) {
	g.from, g.to = append(g.from, other), append(g.to, waits)
}

// afterAll is after for several moments.
func (g *graph) afterAll(waits int32, others []int32) {
	for _, n := range others {
		g.after(waits, n)
	}
}

// leaveOutLate leaves out that a moment waits for one that was recorded later: then the rule that says so is not NCCL's
// here.
func (g *graph) leaveOutLate() {
	n := 0
	for e, other := range g.from {
		if g.at[other] <= g.at[g.to[e]] {
			g.from[n], g.to[n] = other, g.to[e]
			n++
		}
	}
	g.late = len(g.from) - n
	g.from, g.to = g.from[:n], g.to[:n]
}

// ifBefore is after for what may have been waited for.
func (g *graph) ifBefore(waits, other int32) {
	if g.at[other] <= g.at[waits] {
		g.after(waits, other)
	}
}

// rankKey is a rank of a job in one call.
type rankKey struct{ call, job, rank int }

// newGraph finds what waits for what. Only messages that are played have moments.
func newGraph(t *messages.Trace, r *Recorded, between Between) *graph {
	g := &graph{trace: t, recorded: r, between: between, versions: versionsOf(t),
		settings: map[uint64]plan.Decision{}, queues: map[opQueue][]int32{}}
	g.at = make([]int64, 4*len(t.Messages))
	for i := range t.Messages {
		m := &t.Messages[i]
		g.at[posted(i)], g.at[received(i)] = m.Posted, m.ReceivePosted
		if m.Received {
			g.at[visible(i)] = max(m.Due, m.ReceivePosted)
		}
		g.at[complete(i)] = max(m.Complete, m.Posted)
	}
	g.findParts()
	g.ends = make([][]int32, len(g.parts))
	for _, p := range g.parts {
		g.at, g.jobs = append(g.at, 0, 0), append(g.jobs, p.job, p.job)
	}
	g.orderCalls()
	g.timeParts()
	g.orderParts()
	for k, others := range g.ends {
		slices.Sort(others)
		g.afterAll(g.end(k), slices.Compact(others))
	}
	for _, all := range r.Messages {
		g.orderFlow(all)
	}
	g.leaveOutLate()
	return g
}

// findParts finds what each rank does in each call.
func (g *graph) findParts() {
	t := g.trace
	at := map[rankKey]int{}
	g.partAt = at
	of := func(call, job, rank int) *part {
		key := rankKey{call, job, rank}
		k, ok := at[key]
		if !ok {
			k = len(g.parts)
			at[key] = k
			g.parts = append(g.parts, part{call: call, job: job, rank: rank, first: link.Never})
		}
		return &g.parts[k]
	}
	for c := range t.Calls {
		for _, i := range t.Calls[c].Tasks {
			x := &t.Tasks[i]
			of(c, x.Job, x.Owner).begins(x.Begun)
		}
		for _, i := range t.Calls[c].Messages {
			m := &t.Messages[i]
			if g.recorded.FlowOf[i] < 0 || !m.Received {
				continue
			}
			s := of(c, m.Job, m.Sender)
			s.first = min(s.first, m.Posted)
			s.sent = append(s.sent, i)
			of(c, m.Job, m.Receiver)
		}
	}
}

// timeParts finds when each rank began and ended each call.
func (g *graph) timeParts() {
	type inComm struct {
		comm      uint64
		job, rank int
	}
	ended := map[inComm]int64{}
	key := func(p *part) inComm { return inComm{g.trace.Calls[p.call].Comm, p.job, p.rank} }
	for first := 0; first < len(g.parts); {
		next := first
		for ; next < len(g.parts) && g.parts[next].call == g.parts[first].call; next++ {
			p := &g.parts[next]
			made := p.begin
			p.begin = min(max(p.begin, ended[key(p)]), p.first)
			if p.made = p.begin; p.begun {
				p.made = min(made, p.begin)
			}
			g.at[g.begin(next)] = p.begin
		}
		for k := first; k < next; k++ {
			p := &g.parts[k]
			p.end = p.begin
			for _, n := range g.ends[k] {
				p.end = max(p.end, g.at[n])
			}
			g.at[g.end(k)] = p.end
			ended[key(p)] = max(ended[key(p)], p.end)
		}
		first = next
	}
}

func (p *part) begins(t int64) {
	if !p.begun || t < p.begin {
		p.begin, p.begun = t, true
	}
}

// addBarriers finds calls of a communicator that all ranks begin at the same moment, although they had not ended the
// one before at the same moment, and none of them computed until then: they have waited for each other, by means that
// the fabric does not see. Then each begins when all had ended, and nothing was on its way.
func (g *graph) addBarriers(known []explanation) {
	for _, all := range g.beginTogether(known) {
		if !g.isBarrier(all, known) {
			continue
		}
		var others []int32
		for _, other := range all {
			earlier := known[other].earlier
			others = append(others, g.end(earlier))
			for _, i := range g.parts[earlier].sent {
				others = append(others, complete(i))
			}
		}
		g.waitTogether(all, others, known)
	}
}

// beginTogether are the parts of calls that begin at each moment. Calls that not all ranks begin then, or that follow
// another one at that moment, are left out.
func (g *graph) beginTogether(known []explanation) map[[2]uint64][]int {
	byCall := make([][]int, len(g.trace.Calls))
	for k := range g.parts {
		byCall[g.parts[k].call] = append(byCall[g.parts[k].call], k)
	}
	all := map[[2]uint64][]int{} // by communicator and moment
	for call, parts := range byCall {
		if !slices.ContainsFunc(parts, func(k int) bool {
			at, earlier := g.parts[k].begin, known[k].earlier
			return earlier < 0 || at != g.parts[parts[0]].begin || at == g.parts[earlier].begin
		}) && len(parts) > 0 {
			key := [2]uint64{g.trace.Calls[call].Comm, uint64(g.parts[parts[0]].begin)}
			all[key] = append(all[key], parts...)
		}
	}
	return all
}

// waitTogether makes ranks begin a call after others' moments. Ranks that computed during their calls wait only for
// what happened when they began.
func (g *graph) waitTogether(all []int, others []int32, known []explanation) {
	begin := g.parts[all[0]].begin
	if g.between == Computing && !slices.ContainsFunc(others, func(n int32) bool { return g.at[n] == begin }) {
		return
	}
	for _, k := range all {
		for _, n := range others {
			g.ifBefore(g.begin(k), n)
			if made := known[k].made; made >= 0 {
				g.ifBefore(made, n)
			}
		}
	}
}

func (g *graph) isBarrier(all []int, known []explanation) bool {
	computed := func(k int) bool { return known[k].computed }
	waited := func(k int) bool { return g.parts[known[k].earlier].end < g.parts[k].begin }
	return len(all) > 1 && !slices.ContainsFunc(all, computed) && slices.ContainsFunc(all, waited)
}

// orderFlow makes the posts of a connection come in its order.
func (g *graph) orderFlow(all []int) {
	for k := 1; k < len(all); k++ {
		g.after(posted(all[k]), posted(all[k-1]))
		if g.trace.Messages[all[k]].HasReceive {
			g.after(received(all[k]), received(all[k-1]))
		}
	}
}
