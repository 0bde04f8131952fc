// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// sim simulates a plan repeatedly, back to back, in virtual time. Times are ns since the start, when every rank
// launches its first kernel.
type sim struct {
	now      int64
	conns    []conn
	progs    []programRun
	blocks   []blockRun
	ranks    []rankRun
	heap     wakeHeap
	runnable []int  // programs that may be able to continue
	tieSeed  uint64 // determines the order of what is ready at the same instant, if it is random
	turns    []int  // the place of each connection in the order, nil if it is random
	posting  []int  // connections that may have something to post at this instant, if the order is not random
	played   bool   // the first kernels are launched
	calls    int    // number of calls; a rank may run ahead of others
	steps    uint64
}

// conn is a connection with the state of both kernels and both proxies. All counts are of messages since the start.
type conn struct {
	connSpec
	flow    *link.Flow // nil within a node
	draws   bool       // a hop of its path draws random numbers
	perCall uint64     // messages per call

	written    uint64   // by the sending kernel
	sent       uint64   // isend posted by the sending proxy
	acked      uint64   // completed for the sending proxy
	posted     uint64   // irecv posted by the receiving proxy
	arrived    uint64   // visible to the receiving kernel
	consumed   uint64   // by the receiving kernel
	released   uint64   // no longer used, so the flow may forget them
	sizes      []uint64 // of the messages written, by number modulo slots
	sender     int      // program
	receiver   int
	sendOps    *opQueue
	recvOps    *opQueue
	sharesSend bool // p2p: the proxy only frees slots of the running operation
	posting    bool // in sim.posting
}

// opQueue is the order in which a proxy runs the operations of connections that share a queue: operation o is batch o
// modulo len(batches) of a call.
type opQueue struct {
	batches [][]int // conns
	recv    bool
	current uint64
}

// allowed is the number of messages of connection c that the proxy may have begun.
func (o *opQueue) allowed(c *conn) uint64 {
	n := uint64(len(o.batches))
	calls := o.current / n
	if uint64(o.batchOf(c)) <= o.current%n {
		calls++
	}
	return calls * c.perCall
}

func (o *opQueue) batchOf(c *conn) int {
	if o.recv {
		return c.recvBatch
	}
	return c.sendBatch
}

// programRun is the state of a program.
type programRun struct {
	prog            program
	block           int
	loop, times, at int
	queued, active  bool
}

type blockRun struct {
	rank       int
	batches    [][]int // programs
	batch      int
	unfinished int // programs of the batch that have not ended
}

type rankRun struct {
	blocks     []int
	unfinished int     // blocks that have not ended
	ends       []int64 // of each call
}

// newSim makes the connections of p on f for a number of calls. net has the hops of f, idle.
func newSim(p *plan, f *Fabric, net *link.Network, ranks, calls int, tieSeed uint64) (*sim, error) {
	s := &sim{conns: make([]conn, len(p.conns)), ranks: make([]rankRun, ranks), calls: calls, tieSeed: tieSeed}
	for i, spec := range p.conns {
		s.conns[i].connSpec = spec
		s.conns[i].sizes = make([]uint64, spec.sendSlots)
		s.conns[i].sharesSend = spec.p2p
	}
	s.addBlocks(p)
	for i := range s.conns {
		if err := s.conns[i].connect(f, net); err != nil {
			return nil, err
		}
	}
	if f.InOrder {
		s.turns = turns(p.conns)
	}
	s.heap.init(len(s.conns), s.tieSeed, s.turns)
	s.addOps()
	return s, nil
}

// draws says whether a hop on the path of a connection has random jitter or loss.
func (s *sim) draws() bool {
	return slices.ContainsFunc(s.conns, func(c conn) bool {
		return c.draws
	})
}

// connect makes the flow of a connection between nodes that carries messages.
func (c *conn) connect(f *Fabric, net *link.Network) error {
	if c.perCall == 0 || f.Node(c.src) == f.Node(c.dst) {
		return nil
	}
	path, reverse, err := f.Path(Conn{Src: c.src, Dst: c.dst, Channel: c.channel, P2P: c.p2p})
	if err != nil {
		return fmt.Errorf("path of rank %d to rank %d on channel %d: %w", c.src, c.dst, c.channel, err)
	}
	if len(path) == 0 || len(path) > link.MaxHops {
		return fmt.Errorf("path of rank %d to rank %d: %d hops, want 1 to %d", c.src, c.dst, len(path), link.MaxHops)
	}
	id := uint64(c.src)<<40 | uint64(c.dst)<<16 | uint64(c.channel)
	c.flow = net.NewFlow(id, path, reverse)
	c.draws = slices.ContainsFunc(path, func(h link.PathHop) bool { return f.Params[h.Hop].Draws() })
	return nil
}

func (s *sim) addBlocks(p *plan) {
	for _, b := range p.blocks {
		br := blockRun{rank: b.rank}
		for _, batch := range b.batches {
			var ids []int
			for _, prog := range batch {
				id := len(s.progs)
				ids = append(ids, id)
				s.progs = append(s.progs, programRun{prog: prog, block: len(s.blocks)})
				s.attach(id, prog)
			}
			br.batches = append(br.batches, ids)
		}
		s.ranks[b.rank].blocks = append(s.ranks[b.rank].blocks, len(s.blocks))
		s.blocks = append(s.blocks, br)
	}
}

// attach records the programs at both ends of each connection.
func (s *sim) attach(id int, prog program) {
	for _, l := range prog {
		for _, a := range l.actions {
			for _, i := range a.recv {
				s.conns[i].receiver = id
			}
			for _, i := range a.send {
				s.conns[i].sender = id
				if !a.keepSend {
					s.conns[i].perCall += uint64(l.repeat)
				}
			}
		}
	}
}

// addOps makes the queues: two for each connection of a collective, and for p2p one per rank, channel and direction.
func (s *sim) addOps() {
	shared := map[[3]int]*opQueue{}
	queue := func(i, rank, recv int) *opQueue {
		c := &s.conns[i]
		o := &opQueue{recv: recv == 1}
		if c.p2p {
			key := [3]int{rank, c.channel, recv}
			if shared[key] == nil {
				shared[key] = o
			}
			o = shared[key]
		}
		for len(o.batches) <= o.batchOf(c) {
			o.batches = append(o.batches, nil)
		}
		o.batches[o.batchOf(c)] = append(o.batches[o.batchOf(c)], i)
		return o
	}
	for i := range s.conns {
		c := &s.conns[i]
		if c.flow == nil {
			continue
		}
		c.sendOps = queue(i, c.src, 0)
		c.recvOps = queue(i, c.dst, 1)
	}
	for i := range s.conns {
		if c := &s.conns[i]; c.flow != nil {
			s.nextOp(c.sendOps) // skip batches without network messages
			s.nextOp(c.recvOps)
		}
	}
}

// stepsPerCheck is the number of steps between two checks of the context, a few milliseconds.
const stepsPerCheck = 4096

// play continues until every rank has ended the given number of calls, at most s.calls. With losses that can take
// arbitrarily long.
func (s *sim) play(ctx context.Context, calls int) error {
	if !s.played {
		s.played = true
		for r := range s.ranks {
			s.launch(r)
		}
		for i := range s.conns {
			s.proxies(i)
		}
		s.runPrograms()
	}
	for n := 0; !s.ended(calls); n++ {
		if n%stepsPerCheck == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		s.finishInstant()
		if s.heap.first() == link.Never {
			if s.ended(calls) {
				break // in this instant
			}
			return s.deadlock()
		}
		s.now = max(s.now, s.heap.first())
		for s.heap.first() <= s.now {
			_, i := s.heap.pop()
			s.advance(i)
		}
		s.runPrograms()
	}
	return nil
}

// finishInstant lets all proxies and programs do what they can at this instant: with tcp, a send is complete when it is
// posted, and its program goes on.
func (s *sim) finishInstant() {
	for len(s.posting) > 0 {
		s.postInTurn()
		s.runPrograms()
	}
}

func (s *sim) ended(calls int) bool {
	for r := range s.ranks {
		if len(s.ranks[r].ends) < calls && len(s.ranks[r].blocks) > 0 {
			return false
		}
	}
	return true
}

func (s *sim) deadlock() error {
	for i := range s.conns {
		if c := &s.conns[i]; c.flow != nil && c.flow.Broken() {
			return fmt.Errorf("rank %d to rank %d: the link is down for longer than the transport waits", c.src, c.dst)
		}
	}
	return fmt.Errorf("the schedule cannot go on at %d ns: the model of it is wrong", s.now)
}

// launch starts the rank's next kernel.
func (s *sim) launch(r int) {
	blocks := s.ranks[r].blocks
	s.ranks[r].unfinished = len(blocks)
	// The order of the channels is arbitrary, and may change from call to call.
	s.tieSeed = link.Draw(s.tieSeed, 0, 0, uint64(r), uint64(len(s.ranks[r].ends)))
	for i := range blocks {
		b := blocks[(uint64(i)+s.tieSeed%uint64(len(blocks)))%uint64(len(blocks))]
		s.blocks[b].batch = 0
		s.start(b)
	}
}

// start begins the current batch of a block.
func (s *sim) start(b int) {
	br := &s.blocks[b]
	br.unfinished = len(br.batches[br.batch])
	for _, id := range br.batches[br.batch] {
		p := &s.progs[id]
		p.loop, p.times, p.at, p.active = 0, 0, 0, true
		s.wake(id)
	}
}

func (s *sim) wake(id int) {
	if p := &s.progs[id]; p.active && !p.queued {
		p.queued = true
		s.runnable = append(s.runnable, id)
	}
}

// runPrograms lets every program continue as far as it can at this instant, one action each in turn: the blocks of a
// kernel run concurrently, and their proxy serves each channel once per round (sendProxyProgress in NCCL's
// transport/net.cc).
func (s *sim) runPrograms() {
	for k := 0; k < len(s.runnable); k++ {
		id := s.runnable[k]
		s.progs[id].queued = false
		s.advanceProgram(id)
	}
	s.runnable = s.runnable[:0]
}

// advanceProgram executes the program's next action if it is ready.
func (s *sim) advanceProgram(id int) {
	p := &s.progs[id]
	if !p.active {
		return
	}
	if p.loop == len(p.prog) {
		p.active = false
		s.programEnded(p.block)
		return
	}
	l := &p.prog[p.loop]
	a := &l.actions[p.at]
	if !s.ready(a) {
		return
	}
	if p.at++; p.at == len(l.actions) {
		p.at = 0
		if p.times++; p.times == l.repeat {
			p.times = 0
			p.loop++
		}
	}
	s.wake(id)
	s.act(a)
}

// ready says whether action a need not wait.
func (s *sim) ready(a *action) bool {
	for _, i := range a.recv {
		if c := &s.conns[i]; !a.empty && c.arrived <= c.consumed+a.recvAhead {
			return false
		}
	}
	for _, i := range a.send {
		if !s.conns[i].slotFree(a.sendAhead) {
			return false
		}
	}
	return true
}

// slotFree says whether the kernel may write the message that is ahead messages after the connection's next one.
func (c *conn) slotFree(ahead uint64) bool {
	if c.flow == nil {
		return c.written+ahead < c.consumed+c.sendSlots
	}
	if c.sharesSend && c.written+ahead >= c.sendOps.allowed(c) {
		return false
	}
	return c.written+ahead < c.acked+c.sendSlots
}

// act executes an action that is ready.
func (s *sim) act(a *action) {
	send, recv := a.send, a.recv
	if a.keepSend {
		send = nil
	}
	if a.keepRecv {
		recv = nil
	}
	for _, i := range send {
		c := &s.conns[i]
		c.sizes[c.written%c.sendSlots] = a.bytes
		c.written++
		if c.flow == nil {
			c.arrived++
			s.wake(c.receiver)
		}
	}
	for _, i := range recv {
		c := &s.conns[i]
		c.consumed++
		if c.flow == nil {
			s.wake(c.sender)
		}
	}
	for _, i := range send {
		s.proxies(i)
	}
	for _, i := range recv {
		if c := &s.conns[i]; c.flow != nil {
			s.nextOp(c.recvOps)
			s.proxies(i)
		}
	}
}

// programEnded starts what follows the last program of a batch.
func (s *sim) programEnded(b int) {
	br := &s.blocks[b]
	if br.unfinished--; br.unfinished > 0 {
		return
	}
	if br.batch++; br.batch < len(br.batches) {
		s.start(b)
		return
	}
	r := &s.ranks[br.rank]
	if r.unfinished--; r.unfinished == 0 {
		if r.ends = append(r.ends, s.now); len(r.ends) < s.calls {
			s.launch(br.rank)
		}
	}
}
