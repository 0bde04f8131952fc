// SPDX-License-Identifier: Apache-2.0

package mscclpp

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// add adds a step to a block of the schedule.
func (m *machine) add(gpu, block int, st schedule.Step) at {
	b := &m.s.GPUs[gpu].Blocks[block]
	b.Steps = append(b.Steps, st)
	m.steps++
	return at{block, len(b.Steps) - 1}
}

// newBlock adds a block to the schedule.
func (m *machine) newBlock(gpu, peer, channel int) int {
	g := &m.s.GPUs[gpu]
	g.Blocks = append(g.Blocks, schedule.Block{Send: peer, Recv: peer, Channel: channel})
	m.s.Channels = max(m.s.Channels, channel+1)
	return len(g.Blocks) - 1
}

// after makes a step wait for another of the same GPU.
func (m *machine) after(gpu int, st *schedule.Step, x at) {
	m.s.GPUs[gpu].Blocks[x.block].Steps[x.step].HasDep = true
	st.DepBlock, st.DepStep = x.block, x.step
}

// own adds a step of a thread block behind its last one.
func (m *machine) own(b *block, to int, st schedule.Step) at {
	st.DepBlock, st.DepStep = schedule.None, schedule.None
	if b.at.block >= 0 && b.at.block != to {
		m.after(b.gpu, &st, b.at)
	}
	b.at = m.add(b.gpu, to, st)
	return b.at
}

// local adds a step of a thread block that needs no other GPU.
func (m *machine) local(b *block, st schedule.Step) at {
	if b.main < 0 {
		b.main = m.newBlock(b.gpu, schedule.None, 0)
	}
	return m.own(b, b.main, st)
}

func (m *machine) copy(b *block, o *operation, from, to span) at {
	return m.local(b, schedule.Step{Kind: schedule.CopyStep, Src: from.ref, Dst: to.ref, Count: to.n, From: o.from})
}

// await makes a thread block wait for a step of another block of its GPU.
func (m *machine) await(b *block, x at, from string) {
	if known, ok := b.known[x.block]; x.block < 0 || x.block == b.main || ok && known >= x.step {
		return
	}
	b.known[x.block] = x.step
	mark := schedule.Mark()
	mark.From = from
	if b.at.block != b.main || b.main < 0 {
		m.local(b, mark)
	}
	m.after(b.gpu, &mark, x)
	b.at = m.add(b.gpu, b.main, mark)
}

// port is how a thread block reaches a GPU: a block there, the agent, and one here.
func (m *machine) port(b *block, peer int) *port {
	if x := b.ports[peer]; x != nil {
		return x
	}
	pair := [2]int{min(b.gpu, peer), max(b.gpu, peer)}
	channel := m.numbers[pair]
	m.numbers[pair]++
	x := &port{m.newBlock(b.gpu, peer, channel), m.newBlock(peer, b.gpu, channel), len(m.agents)}
	m.agents = append(m.agents, agent{peer, x.agent})
	b.ports[peer] = x
	return x
}

// send stores a local source in a remote destination.
func (m *machine) send(b *block, o *operation, from, to span) {
	x := m.port(b, to.gpu)
	proto := schedule.Simple
	if isPackets(o) {
		proto, m.s.Proto = schedule.LL, schedule.LL
	}
	m.own(b, x.block, schedule.Step{Kind: schedule.SendStep, Src: from.ref, Dst: from.ref, Count: to.n, Proto: proto,
		From: o.from})
	stored := m.add(to.gpu, x.agent, schedule.Step{Kind: schedule.RecvStep, Src: to.ref, Dst: to.ref, Count: to.n,
		DepBlock: schedule.None, DepStep: schedule.None, Proto: proto, From: o.from})
	if proto == schedule.LL {
		m.written(to.gpu, to, stored)
		return
	}
	b.plainTo[to.gpu] = len(o.ranks) == 0 // the memory of a switch channel has an order of its own
	b.noteStore(x.id, stored.step)
}

// noteStore notes the last store of an agent.
func (b *block) noteStore(agent, step int) {
	for len(b.past) <= agent {
		b.past = append(b.past, schedule.None)
	}
	b.past[agent] = step
}

// request asks the GPU of a source for its bytes.
func (m *machine) request(b *block, o *operation, from span) {
	x := m.port(b, from.gpu)
	m.own(b, x.block, schedule.Step{Kind: schedule.SignalStep, Count: 1, From: o.from})
	m.add(from.gpu, x.agent, schedule.Step{Kind: schedule.WaitStep, Count: 1, DepBlock: schedule.None,
		DepStep: schedule.None, From: o.from})
	m.inPieces(from.n, func(at, n int) {
		ref := from.part(at, n).ref
		m.add(from.gpu, x.agent, schedule.Step{Kind: schedule.SendStep, Src: ref, Dst: ref, Count: n,
			DepBlock: schedule.None, DepStep: schedule.None, Proto: schedule.Simple, From: o.from})
	})
}

// answer takes a piece of the bytes of a request.
func (m *machine) answer(b *block, o *operation, peer int, kind schedule.Kind, add, to span) {
	m.own(b, m.port(b, peer).block, schedule.Step{Kind: kind, Src: add.ref, Dst: to.ref, Count: to.n,
		Proto: schedule.Simple, From: o.from})
}

// signal sends the signals of an operation. A relaxed one says nothing about what was stored before.
func (m *machine) signal(b *block, o *operation, relaxed bool) {
	for _, c := range o.channels {
		x := m.port(b, c.peer)
		m.own(b, x.block, schedule.Step{Kind: schedule.SignalStep, Count: 1, From: o.from})
		s := sent{
			at: m.add(c.peer, x.agent, schedule.Step{Kind: schedule.WaitStep, Count: 1, DepBlock: schedule.None,
				DepStep: schedule.None, From: o.from})}
		switch {
		case !relaxed:
			s.past = slices.Clone(b.past)
			m.work += len(b.past)
			delete(b.plainTo, c.peer)
		case b.plainTo[c.peer]:
			m.warn("relaxed signals behind puts",
				"%s is relaxed and comes behind a put to GPU %d: whoever waits for it may still see the old data",
				o.from, c.peer)
		}
		list := m.signalsOf(b.gpu, c)
		if list.from != nil && list.from != b && !list.ambiguous {
			list.ambiguous = true
			m.warn("channels that two thread blocks use",
				"two thread blocks of GPU %d signal GPU %d on %v: which signal a wait takes depends on which is faster",
				b.gpu, c.peer, c)
		}
		list.from = b
		list.sent = append(list.sent, s)
	}
}

// wait takes the signals of an operation.
func (m *machine) wait(b *block, o *operation) {
	for _, c := range o.channels {
		list := m.waitsOf(b.gpu, c)
		if list.to != nil && list.to != b && !list.ambiguous {
			list.ambiguous = true
			m.warn("channels that two thread blocks use",
				"two thread blocks of GPU %d wait for signals of GPU %d on %v: which of them takes one depends on which "+
					"is faster", b.gpu, c.peer, c)
		}
		list.to = b
		m.take(b, list.sent[list.taken], o.from)
		list.taken++
	}
}

// take makes a thread block wait for a signal, and for the stores that come before it.
func (m *machine) take(b *block, s sent, from string) {
	m.await(b, s.at, from)
	m.takePast(b, s.past, from)
}

// takePast makes a thread block wait for stores into its GPU, and notes the others.
func (m *machine) takePast(b *block, past []int, from string) {
	m.work += len(past)
	for agent, step := range past {
		if step < 0 || agent < len(b.past) && b.past[agent] >= step {
			continue
		}
		b.noteStore(agent, step)
		if x := m.agents[agent]; x.gpu == b.gpu {
			m.await(b, at{x.block, step}, from)
		}
	}
}

// join makes thread blocks wait for each other. The first one waits for all, the others for it.
func (m *machine) join(all []*block, from string) {
	leader := all[0]
	last := make([]at, len(all))
	for i, b := range all {
		last[i] = b.at
	}
	for i, b := range all[1:] {
		m.await(leader, last[i+1], from)
		m.takePast(leader, b.past, from)
	}
	for _, b := range all[1:] {
		m.await(b, leader.at, from)
		m.takePast(b, leader.past, from)
	}
}

// release adds to semaphores.
func (m *machine) release(b *block, o *operation) {
	for _, n := range o.sems {
		s := &m.gpus[b.gpu].sems[n]
		s.tokens++
		s.released = append(s.released, sent{b.at, slices.Clone(b.past)})
		m.work += len(b.past)
	}
}

// acquire takes from semaphores. If several thread blocks release one, a thread block knows only when it has acquired
// all that they have.
func (m *machine) acquire(b *block, o *operation) {
	for _, n := range o.sems {
		s := &m.gpus[b.gpu].sems[n]
		s.tokens--
		s.acquired[b]++
		count := s.acquired[b] - s.init
		switch {
		case len(s.by) == 1 && count > 0:
			m.take(b, s.released[count-1], o.from)
		case len(s.by) > 1 && count == s.all:
			for _, x := range s.released {
				m.take(b, x, o.from)
			}
		}
	}
}

// written notes that a step writes packets. If two do, it is the first for which a reader waits.
func (m *machine) written(gpu int, to span, by at) {
	g := &m.gpus[gpu]
	g.packets = append(g.packets, by)
	m.work += to.n
	for i := range to.n {
		if k := to.ref.Offset + i; k < len(g.writer) && g.writer[k] == 0 {
			g.writer[k] = len(g.packets)
		}
	}
}

// takePackets makes a thread block wait for the packets that an operation reads.
func (m *machine) takePackets(b *block, o *operation) {
	g := &m.gpus[b.gpu]
	for _, x := range o.packets() {
		before := 0
		for i := range x.n {
			if w := g.writer[x.ref.Offset+i]; w != before {
				before = w
				m.await(b, g.packets[w-1], o.from)
			}
		}
	}
}
