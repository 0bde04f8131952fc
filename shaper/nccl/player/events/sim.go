// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// newSimulation makes a simulation with the given connections, on hops of net that are idle. Without a fixed order the
// seed determines the order of what is ready at the same instant.
func newSimulation(conns []conn, ranks []rankRun, f *player.Fabric, seed uint64, net *link.Network) *simulation {
	s := &simulation{conns: conns, ranks: ranks, inOrder: f.InOrder, nodes: f.Nodes,
		transport: f.Transport}
	ends, orders := make([]*sim.Endpoints, len(conns)), make([]uint64, len(conns))
	for i := range conns {
		ends[i], orders[i] = &conns[i].Endpoints, uint64(i)
	}
	if s.inOrder {
		orders = order(conns)
	}
	s.loop = sim.New(net, ends, orders, f.Changes, sim.Rules{RoundRobin: s.inOrder, Drawn: !s.inOrder, Seed: seed})
	for r := range s.ranks {
		s.ranks[r].id = r
	}
	return s
}

// watch makes the simulation call occupied, if it is not nil, for each segment on each hop.
func (s *simulation) watch(occupied func(hop int, p *link.HopRecord)) {
	if occupied == nil {
		return
	}
	paths := map[int][]link.PathHop{} // by the number of the flow
	for i := range s.conns {
		if c := &s.conns[i]; c.Flow != nil {
			paths[c.Flow.Number()] = c.path
		}
	}
	s.loop.Watch = func(p *link.HopRecord) { occupied(paths[int(p.Flow)][p.Hop].Hop, p) }
}

// draws says whether a hop on the path of a connection has random jitter or loss.
func (s *simulation) draws() bool {
	return slices.ContainsFunc(s.conns, func(c conn) bool {
		return c.draws
	})
}

// play continues until done. With losses that can take arbitrarily long.
func (s *simulation) play(ctx context.Context, done func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.played {
		for r := range s.ranks {
			s.resume(r)
		}
		s.played = true
		for i := range s.conns {
			s.proxies(i)
		}
		s.runPrograms()
	}
	for !done() {
		flows, stop := s.run(link.Never)
		switch {
		case stop == sim.Paused:
			if err := ctx.Err(); err != nil {
				return err
			}
			continue
		case stop == sim.Reached && done(): // in this instant
			return nil
		case stop == sim.Reached:
			return s.deadlock()
		}
		s.loop.RunTimers()
		s.see(flows)
		for s.loop.HasNow() {
			s.seeUpToNow()
		}
		s.runPrograms()
	}
	return nil
}

// run lets time go on until an end of a connection has something to see, and returns these connections.
func (s *simulation) run(until int64) ([]uint32, sim.Stop) {
	flows, stop := s.loop.Run(until)
	s.now = s.loop.Now()
	return flows, stop
}

func (s *simulation) seeUpToNow() {
	flows, _ := s.run(s.now)
	s.see(flows)
}

func (s *simulation) see(flows []uint32) {
	for _, i := range flows {
		s.wakeEnds(int(i))
	}
}

// finishInstant lets all proxies and programs do what they can at this instant: with tcp, a send is complete when it is
// posted, and its program goes on.
func (s *simulation) finishInstant() {
	for s.loop.HasPosts() {
		s.seeUpToNow()
		s.runPrograms()
	}
}

func (s *simulation) deadlock() error {
	for i := range s.conns {
		if c := &s.conns[i]; c.Flow != nil && c.Flow.Broken() {
			return fmt.Errorf("rank %d to rank %d: the link is down for longer than the transport waits", c.src, c.dst)
		}
	}
	for r := range s.ranks {
		if text := s.ranks[r].waiting(); text != "" {
			return fmt.Errorf("the schedule cannot go on at %d ns: rank %d %s", s.now, r, text)
		}
	}
	return fmt.Errorf("the schedule cannot go on at %d ns: the model of it is wrong", s.now)
}

// startKernel starts an item's kernel, whose channels begin a while later.
func (s *simulation) startKernel(r, item int, k *plan.Kernel, at *moment) {
	if s.nodes == nil || s.nodes.Launch(len(k.Channels)) == 0 {
		s.startChannels(r, item, k, at)
		return
	}
	run, ns := &s.ranks[r], s.nodes.Launch(len(k.Channels))
	run.begins = s.now + ns
	s.after(run.begins, r, item, func() { s.startChannels(r, item, k, at.after(ns, player.Launch)) })
}

// startChannels begins what a kernel does on its channels.
func (s *simulation) startChannels(r, item int, k *plan.Kernel, at *moment) {
	run := &kernelRun{Kernel: k, rank: r, item: item, unfinished: len(k.Channels)}
	if run.unfinished == 0 {
		s.itemEnded(r, item, at)
		return
	}
	n := len(k.Channels)
	first := s.loop.FirstChannel(r, s.ranks[r].kernels, n)
	s.ranks[r].kernels++
	for i := range n {
		s.startBatch(&blockRun{block: &k.Channels[(first+i)%n], kernel: run}, at)
	}
}

// startBatch begins the current batch of a block.
func (s *simulation) startBatch(b *blockRun, at *moment) {
	batch := &b.block.Batches[b.batch]
	b.unfinished = len(batch.Programs)
	starts := batch.P2P && !b.p2p
	b.p2p = b.p2p || batch.P2P
	for _, prog := range batch.Programs {
		p := &programRun{Cursor: prog.Start(), conns: batch.Conns, block: b, active: true, starts: starts, at: at}
		for _, e := range prog.Sends {
			c := &s.conns[p.conns[e.Conn]]
			c.sender, c.window = p, windowOf(e.Slots)
		}
		for _, e := range prog.Recvs {
			c := &s.conns[p.conns[e.Conn]]
			c.receiver, c.reads = p, windowOf(e.Slots).each
		}
		s.wake(p)
	}
}

// runPrograms lets every program continue as far as it can at this instant, one action each in turn: the blocks of a
// kernel run concurrently, and their proxy serves each channel once per round (sendProxyProgress in NCCL's
// transport/net.cc).
func (s *simulation) runPrograms() {
	for k := 0; k < len(s.runnable); k++ {
		p := s.runnable[k]
		p.queued = false
		s.advanceProgram(p)
	}
	s.runnable = s.runnable[:0]
}

// advanceProgram executes the program's next action if it is ready.
func (s *simulation) advanceProgram(p *programRun) {
	if !p.active {
		return
	}
	a := p.Action()
	if a == nil {
		p.active = false
		s.programEnded(p.block, p.at)
		return
	}
	if p.ends > s.now || p.ends == 0 && !s.ready(p, a) {
		return
	}
	batch := &p.block.block.Batches[p.block.batch]
	between := batch.P2P && s.nodes.HasSendNet() && s.isProxied(p, a)
	cost := s.nodes.Cost(p.Loop(), batch.P2P, between, batch.Plan.Proto)
	if p.ends == 0 {
		ns := cost.Action(a)
		if p.starts && len(a.Send) > 0 && p.AtStart() {
			ns += cost.Start
		}
		begins := s.causes.begins(p, a)
		p.at = begins.after(ns, cost.Part)
		s.writeDirect(p, a, cost, begins, s.now+ns)
		if ns > 0 {
			p.ends = s.now + ns
			s.after(p.ends, p.block.kernel.rank, p.block.kernel.item, func() { s.wake(p) })
			return
		}
	}
	p.ends = 0
	p.Advance()
	s.wake(p)
	s.act(p, a)
}

// writeDirect sends the messages of an action to GPUs of the node: a kernel writes to their memory during its action,
// which ends at a time.
func (s *simulation) writeDirect(p *programRun, a *plan.Action, cost player.Cost, begins *moment, ends int64) {
	if a.KeepSend {
		return
	}
	for _, i := range a.Send {
		c := &s.conns[p.conns[i]]
		if !c.direct {
			continue
		}
		s.causes.writes(p.conns[i], begins, p.at)
		if !c.Write(cost.OnLink(a.Bytes), ends) {
			panic("a kernel has more messages in flight than a flow keeps")
		}
		s.proxies(p.conns[i])
	}
}

// isProxied says whether proxies move the messages of action a.
func (s *simulation) isProxied(p *programRun, a *plan.Action) bool {
	between := func(i int) bool { return s.conns[p.conns[i]].proxied() }
	return slices.ContainsFunc(a.Send, between) || slices.ContainsFunc(a.Recv, between)
}

// ready says whether action a need not wait.
func (s *simulation) ready(p *programRun, a *plan.Action) bool {
	for _, i := range a.Recv {
		if c := &s.conns[p.conns[i]]; !a.Empty && c.Arrived <= c.consumed+a.RecvAhead {
			return false
		}
	}
	for _, i := range a.Send {
		if !s.conns[p.conns[i]].slotFree(a.SendAhead) {
			return false
		}
	}
	return true
}

// act executes an action that is ready and has taken its time.
func (s *simulation) act(p *programRun, a *plan.Action) {
	send, recv := a.Send, a.Recv
	if a.KeepSend {
		send = nil
	}
	if a.KeepRecv {
		recv = nil
	}
	for _, i := range send {
		c := &s.conns[p.conns[i]]
		if !c.direct {
			s.causes.writes(p.conns[i], p.at, p.at)
		}
		c.put(a.Bytes)
		switch {
		case c.proxied():
			s.handOver(p, c, p.conns[i], a.Bytes)
		case c.Flow == nil:
			c.Arrived++
			s.wake(c.receiver)
		}
	}
	for _, i := range recv {
		c := &s.conns[p.conns[i]]
		s.causes.consumes(p.conns[i], p.at)
		c.consumed++
		if !c.proxied() {
			c.occupied -= int64(c.reads)
			s.wake(c.sender)
		}
	}
	for _, i := range send {
		s.proxies(p.conns[i])
	}
	for _, i := range recv {
		if c := &s.conns[p.conns[i]]; c.Flow != nil {
			s.nextOp(c.recvOps)
			s.proxies(p.conns[i])
		}
	}
}

// programEnded starts what follows the last program of a batch.
func (s *simulation) programEnded(b *blockRun, at *moment) {
	b.ended = later(at, b.ended)
	if b.unfinished--; b.unfinished > 0 {
		return
	}
	if b.batch++; b.batch < len(b.block.Batches) {
		s.startBatch(b, b.ended)
		return
	}
	k := b.kernel
	k.ended = later(b.ended, k.ended)
	if k.unfinished--; k.unfinished == 0 {
		s.itemEnded(k.rank, k.item, k.ended)
	}
}
