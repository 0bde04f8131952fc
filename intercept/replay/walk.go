// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// follow walks through the programs of all ranks, and says what each post, and the end of each rank's kernel, waits
// for. A program that waits for another one of its node lets it go on.
func (p *planned) follow() {
	n := len(p.flows)
	p.local, p.queued, p.lastRead = make([]local, n), make([][]int32, n), make([][]int32, n)
	walks := p.walks()
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
	p.eachBatch(func(_ int, batch *plan.Batch, _ bool) { p.queueReceives(batch) })
	for _, w := range walks {
		for _, n := range w.moments() {
			if n != w.begin {
				p.graph.ends[w.part] = append(p.graph.ends[w.part], n)
			}
		}
	}
}

// eachBatch calls f for the batches of all ranks' kernels. first says that it is the first one of its channel.
func (p *planned) eachBatch(f func(rank int, batch *plan.Batch, first bool)) {
	for rank, k := range p.plan.KernelsOf(0, nil, len(p.parts)) {
		for i := 0; k != nil && i < len(k.Channels); i++ {
			for j := range k.Channels[i].Batches {
				f(rank, &k.Channels[i].Batches[j], j == 0)
			}
		}
	}
}

// walks are walks through all programs, from their starts.
func (p *planned) walks() (walks []*walk) {
	var now []*walk
	p.eachBatch(func(rank int, batch *plan.Batch, first bool) {
		p.queueSends(batch)
		before := now
		if now = nil; first {
			before = nil
		}
		for _, prog := range batch.Programs {
			w := &walk{planned: p, part: p.parts[rank], begin: p.graph.begin(p.parts[rank]), before: before,
				Cursor: prog.Start(), read: map[int]int{}, written: map[int]int{}, told: map[int]int{},
				state: state{map[int]int{}, map[int]int{}, map[int32]bool{}}}
			w.once[w.begin] = true
			now = append(now, w)
		}
		walks = append(walks, now...)
	})
	return walks
}

// queueSends puts the sends of a batch into the queues of its ranks' proxies.
func (p *planned) queueSends(batch *plan.Batch) {
	last := map[opQueue][]int32{}
	for _, prog := range batch.Programs {
		for _, u := range prog.Sends {
			if all := p.flows[u.Conn]; all != nil {
				q := p.graph.queueOf(all[0], false)
				p.queued[u.Conn] = p.graph.queues[q]
				last[q] = append(last[q], complete(all[len(all)-1]))
			}
		}
	}
	maps.Copy(p.graph.queues, last)
}

// queueReceives is the same of the receives. A receive is done when the kernel has read the message.
func (p *planned) queueReceives(batch *plan.Batch) {
	last := map[opQueue][]int32{}
	for _, prog := range batch.Programs {
		for _, u := range prog.Recvs {
			if all := p.flows[u.Conn]; all != nil {
				q := p.graph.queueOf(all[0], true)
				p.graph.opens(p.parts[p.plan.Conns[u.Conn].Dst], all[0])
				last[q] = append(last[q], p.lastRead[u.Conn]...)
			}
		}
	}
	maps.Copy(p.graph.queues, last)
}

// local is a connection within a node, which the fabric does not see: what its messages and its places have waited for.
type local struct{ sent, freed []state }

// state is what a program has waited for.
type state struct {
	// arrived and occupied are 1 + the last message of each connection between nodes: until it was there, or until
	// there was a place for it. Messages are counted from the start of the call.
	arrived, occupied map[int]int
	once              map[int32]bool // moments that are not of such a sequence
}

func (s state) clone() state {
	return state{maps.Clone(s.arrived), maps.Clone(s.occupied), maps.Clone(s.once)}
}

// add adds what another program has waited for.
func (s state) add(other state) {
	for i, n := range other.arrived {
		s.arrived[i] = max(s.arrived[i], n)
	}
	for i, n := range other.occupied {
		s.occupied[i] = max(s.occupied[i], n)
	}
	maps.Copy(s.once, other.once)
}

// walk is how far a program is.
type walk struct {
	*planned
	part   int     // of the rank in the call
	begin  int32   // of the part
	before []*walk // programs of the batch before, until they have ended
	plan.Cursor
	state
	read, written map[int]int // messages by connection
	told          map[int]int // moments of once that the posts of a connection wait for; ^i: the receives
}

// isReady says whether other programs of the node are as far as an action needs.
func (w *walk) isReady(a *plan.Action) bool {
	for _, b := range w.before {
		if b.Action() != nil {
			return false
		}
	}
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

// place is 1 + the message of a connection in the call whose place a program needs for an action; less than 1: none.
func (w *walk) place(i int, a *plan.Action) int {
	return w.written[i] + int(a.SendAhead) + 1 - int(w.plan.Conns[i].SendSlots)
}

func (w *walk) step(a *plan.Action) {
	for _, b := range w.before {
		for _, n := range b.moments() {
			w.once[n] = true
		}
	}
	w.before = nil
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
		w.occupy(i, a)
	}
	if !a.KeepSend {
		for _, i := range a.Send {
			w.send(i)
		}
	}
	if !a.KeepRecv {
		for _, i := range a.Recv {
			w.receive(i)
		}
	}
}

// occupy waits for a place in the buffer of a connection. A kernel of sends shares the places of its channel: its proxy
// gives it some when it has begun with them.
func (w *walk) occupy(i int, a *plan.Action) {
	n := w.place(i, a)
	switch {
	case w.flows[i] == nil && n > 0:
		w.add(w.local[i].freed[n-1])
	case w.flows[i] == nil:
	case n < 1 && w.plan.Conns[i].P2P:
		for _, n := range w.queued[i] {
			w.once[n] = true
		}
	default:
		w.occupied[i] = max(w.occupied[i], w.written[i]+int(a.SendAhead)+1)
	}
}

// moments are those that the program has waited for.
func (w *walk) moments() []int32 {
	return slices.AppendSeq(w.growing(), maps.Keys(w.once))
}

// growing are the last moments of each sequence.
func (w *walk) growing() (out []int32) {
	for i, n := range w.arrived {
		out = append(out, visible(w.flows[i][n-1]))
	}
	for i, n := range w.occupied {
		flow, at := w.graph.recorded.FlowOf[w.flows[i][0]], w.graph.recorded.At[w.flows[i][n-1]]
		if before := at - int(w.plan.Conns[i].SendSlots); before >= 0 {
			out = append(out, complete(w.graph.recorded.Messages[flow][before]))
		}
	}
	return out
}

// news are moments without those of once that were told before.
func (w *walk) news(told int) []int32 {
	if w.told[told] == len(w.once) {
		return w.growing()
	}
	w.told[told] = len(w.once)
	return w.moments()
}

// send says what the next message of a connection waits for.
func (w *walk) send(i int) {
	if w.flows[i] == nil {
		w.local[i].sent = append(w.local[i].sent, w.clone())
	} else {
		m := w.flows[i][w.written[i]]
		if w.graph.afterAll(posted(m), w.news(i)); w.written[i] == 0 && !w.plan.Conns[i].P2P {
			w.graph.afterAll(posted(m), w.queued[i]) // the kernel of a collective does not wait for it
		}
	}
	w.written[i]++
}

// receive says what the receive that takes the place of the next message of a connection waits for: the kernel has read
// that message.
func (w *walk) receive(i int) {
	n := w.read[i]
	w.read[i]++
	if w.flows[i] == nil {
		w.local[i].freed = append(w.local[i].freed, w.clone())
		return
	}
	arrives := visible(w.flows[i][n])
	add := func(moments []int32) []int32 {
		if slices.Contains(moments, arrives) {
			return moments
		}
		return append(moments, arrives)
	}
	if next := n + int(w.plan.Conns[i].RecvSlots); next < len(w.flows[i]) {
		w.graph.afterAll(received(w.flows[i][next]), add(w.news(^i)))
	}
	if n == len(w.flows[i])-1 {
		w.lastRead[i] = add(w.moments())
	}
}
