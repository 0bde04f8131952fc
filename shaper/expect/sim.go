// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/link"
)

// sim plays a plan again and again, back to back, in virtual time. Times are ns
// since the start, when every rank launches its first kernel.
type sim struct {
	now    int64
	conns  []conn
	progs  []run
	blocks []blockRun
	ranks  []rankRun
	heap   wakes
	dirty  []int  // programs that may be able to go on
	turn   uint64 // decides who goes first of those that are ready at the same instant
	played bool   // the first kernels are launched
	calls  int    // that the host has enqueued: a rank may run ahead of others
	steps  uint64
}

// conn is a connection as both kernels and both proxies see it. All counts are
// of messages since the start.
type conn struct {
	connSpec
	flow  *link.Flow // nil within a node
	draws bool       // a hop of its path draws random numbers
	each  uint64     // messages per call

	written    uint64   // by the sending kernel
	sent       uint64   // isend posted by the sending proxy
	acked      uint64   // completed for the sending proxy
	posted     uint64   // irecv posted by the receiving proxy
	arrived    uint64   // visible to the receiving kernel
	consumed   uint64   // by the receiving kernel
	taken      uint64   // given back to the flow
	sizes      []uint64 // of the messages written, by number modulo slots
	sender     int      // programs
	receiver   int
	sendOps    *ops
	recvOps    *ops
	sharesSend bool // p2p: the proxy hands out the slots of the running operation only
}

// ops is the order in which a proxy runs the operations of connections that
// share one queue: operation o is batch o modulo len(batches) of a call.
type ops struct {
	batches [][]int // conns
	recv    bool
	current uint64
}

// allowed is how many messages of connection c its proxy may have begun.
func (o *ops) allowed(c *conn) uint64 {
	n := uint64(len(o.batches))
	calls := o.current / n
	if uint64(o.batchOf(c)) <= o.current%n {
		calls++
	}
	return calls * c.each
}

func (o *ops) batchOf(c *conn) int {
	if o.recv {
		return c.recvBatch
	}
	return c.sendBatch
}

// run is one program being played.
type run struct {
	prog            program
	block           int
	loop, times, at int
	queued, active  bool
}

type blockRun struct {
	rank    int
	batches [][]int // programs
	batch   int
	left    int // programs of the batch that have not ended
}

type rankRun struct {
	blocks []int
	left   int     // blocks that have not ended
	ends   []int64 // of each call
}

// newSim sets up the connections of p on f, whose hops net has at rest, for so many calls.
func newSim(p *plan, f *Fabric, net *link.Network, ranks, calls int, turn uint64) (*sim, error) {
	s := &sim{conns: make([]conn, len(p.conns)), ranks: make([]rankRun, ranks), calls: calls, turn: turn}
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
	s.heap.init(len(s.conns), s.turn)
	s.addOps()
	return s, nil
}

// draws says whether a link on the way of a connection draws jitter or loss.
func (s *sim) draws() bool {
	return slices.ContainsFunc(s.conns, func(c conn) bool {
		return c.draws
	})
}

// connect gives the connection its flow, if it leads anywhere.
func (c *conn) connect(f *Fabric, net *link.Network) error {
	if c.each == 0 || f.Node(c.src) == f.Node(c.dst) {
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
				s.progs = append(s.progs, run{prog: prog, block: len(s.blocks)})
				s.attach(id, prog)
			}
			br.batches = append(br.batches, ids)
		}
		s.ranks[b.rank].blocks = append(s.ranks[b.rank].blocks, len(s.blocks))
		s.blocks = append(s.blocks, br)
	}
}

// attach notes which program is at either end of each connection.
func (s *sim) attach(id int, prog program) {
	for _, l := range prog {
		for _, a := range l.actions {
			for _, i := range a.recv {
				s.conns[i].receiver = id
			}
			for _, i := range a.send {
				s.conns[i].sender = id
				if !a.keepSend {
					s.conns[i].each += uint64(l.repeat)
				}
			}
		}
	}
}

// addOps gives each connection of a collective its own queues, and those of p2p
// one queue per rank, channel and direction.
func (s *sim) addOps() {
	shared := map[[3]int]*ops{}
	queue := func(i, rank, recv int) *ops {
		c := &s.conns[i]
		o := &ops{recv: recv == 1}
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
			s.nextOp(c.sendOps) // past batches without the network
			s.nextOp(c.recvOps)
		}
	}
}

// stepsUnwatched is how many steps are played between two looks at the context: a few
// milliseconds'.
const stepsUnwatched = 4096

// play goes on until every rank has ended so many calls, at most those enqueued. A loss
// can make that as long as it likes.
func (s *sim) play(ctx context.Context, calls int) error {
	if !s.played {
		s.played = true
		for r := range s.ranks {
			s.launch(r)
		}
		for i := range s.conns {
			s.proxies(i)
		}
		s.settle()
	}
	for n := 0; !s.ended(calls); n++ {
		if n%stepsUnwatched == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		t, i := s.heap.pop()
		if t == link.Never {
			return s.stuck()
		}
		s.now = max(s.now, t)
		s.advance(i)
		for s.heap.first() <= s.now {
			_, i := s.heap.pop()
			s.advance(i)
		}
		s.settle()
	}
	return nil
}

func (s *sim) ended(calls int) bool {
	for r := range s.ranks {
		if len(s.ranks[r].ends) < calls && len(s.ranks[r].blocks) > 0 {
			return false
		}
	}
	return true
}

func (s *sim) stuck() error {
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
	s.ranks[r].left = len(blocks)
	// Any channel may come first, and another one in the next call.
	s.turn = link.Draw(s.turn, 0, 0, uint64(r), uint64(len(s.ranks[r].ends)))
	for i := range blocks {
		b := blocks[(uint64(i)+s.turn%uint64(len(blocks)))%uint64(len(blocks))]
		s.blocks[b].batch = 0
		s.start(b)
	}
}

// start begins the current batch of a block.
func (s *sim) start(b int) {
	br := &s.blocks[b]
	br.left = len(br.batches[br.batch])
	for _, id := range br.batches[br.batch] {
		p := &s.progs[id]
		p.loop, p.times, p.at, p.active = 0, 0, 0, true
		s.wake(id)
	}
}

func (s *sim) wake(id int) {
	if p := &s.progs[id]; p.active && !p.queued {
		p.queued = true
		s.dirty = append(s.dirty, id)
	}
}

// settle lets every program go as far as it can at this instant, an action each in
// turn: the blocks of a kernel run at the same time, and their proxy serves each
// channel once a round (sendProxyProgress in NCCL's transport/net.cc).
func (s *sim) settle() {
	for k := 0; k < len(s.dirty); k++ {
		id := s.dirty[k]
		s.progs[id].queued = false
		s.goOn(id)
	}
	s.dirty = s.dirty[:0]
}

// goOn does the program's next action, unless that has to wait.
func (s *sim) goOn(id int) {
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

// ready says whether all that action a waits for is there.
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

// slotFree says whether the kernel may write the message that is so many ahead of
// the connection's next one.
func (c *conn) slotFree(ahead uint64) bool {
	if c.flow == nil {
		return c.written+ahead < c.consumed+c.sendSlots
	}
	if c.sharesSend && c.written+ahead >= c.sendOps.allowed(c) {
		return false
	}
	return c.written+ahead < c.acked+c.sendSlots
}

// act does what an action is for, once it is ready.
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

// programEnded starts what comes after the last program of a batch.
func (s *sim) programEnded(b int) {
	br := &s.blocks[b]
	if br.left--; br.left > 0 {
		return
	}
	if br.batch++; br.batch < len(br.batches) {
		s.start(b)
		return
	}
	r := &s.ranks[br.rank]
	if r.left--; r.left == 0 {
		if r.ends = append(r.ends, s.now); len(r.ends) < s.calls {
			s.launch(br.rank)
		}
	}
}
