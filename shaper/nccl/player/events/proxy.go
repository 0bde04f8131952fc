// SPDX-License-Identifier: Apache-2.0

package events

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// proxies lets both proxies of a connection do what they can at this instant.
func (s *simulation) proxies(i int) {
	c := &s.conns[i]
	if c.Flow == nil {
		return
	}
	posted, sentBefore, postedBefore := true, c.Sent, c.Posted
	if c.direct {
		c.receiveDirect()
	} else {
		posted = c.send()
		posted = c.receive() || posted
	}
	s.causes.posts(i, sentBefore, postedBefore)
	switch {
	case s.inOrder: // a receive completes at once if its data is there; that needs no step
		if n := c.PollArrived(); n > 0 {
			s.causes.sees(i, n, 0)
			s.wake(c.receiver)
			s.nextOp(c.recvOps)
		}
	case posted:
		s.loop.Step(i)
		s.wakeEnds(i)
	}
}

// handOver gives a message that a kernel has just written to the sending proxy, never before an earlier one.
func (s *simulation) handOver(p *programRun, c *conn, i int, bytes uint64) {
	if s.nodes == nil || s.nodes.Rendezvous == 0 || bytes <= s.nodes.Eager && c.handed == c.written-1 {
		c.handed++
		return
	}
	if bytes > s.nodes.Eager {
		c.handedAt = max(c.handedAt, s.now+s.nodes.Rendezvous)
	}
	s.after(c.handedAt, p.block.kernel.rank, p.block.kernel.item, func() {
		s.causes.agrees(i, c.handed)
		c.handed++
		s.proxies(i)
	})
}

// order returns the number of each connection in the order of a virtual clock: by sender, distance to the receiver and
// the order in which they were made. A communicator's connections were made before the next one's, unless conn.made
// says something else: connections of collectives first, and by channels.
func order(conns []conn) []uint64 {
	return sim.Orders(len(conns), func(a, b int) int {
		x, y := &conns[a], &conns[b]
		return cmp.Or(cmp.Compare(sim.Order(x.through, x.dst, 0), sim.Order(y.through, y.dst, 0)),
			cmp.Compare(x.made, y.made),
			cmp.Compare(x.comm, y.comm), cmp.Compare(bit(x.p2p), bit(y.p2p)), cmp.Compare(x.channel, y.channel),
			cmp.Compare(x.multicast, y.multicast))
	})
}

// wakeEnds wakes the programs at the ends of a connection that have something to see, and lets its proxies go on.
func (s *simulation) wakeEnds(i int) {
	c := &s.conns[i]
	arrived, acked := c.poll()
	s.causes.sees(i, arrived, acked)
	if arrived > 0 {
		s.wake(c.receiver)
	}
	if acked > 0 {
		s.wake(c.sender)
	}
	if arrived > 0 || acked > 0 {
		s.nextOp(c.sendOps)
		s.nextOp(c.recvOps)
		s.proxies(i)
	}
}

// enqueue gives the proxies the operations of a kernel that a rank launches.
func (s *simulation) enqueue(k *plan.Kernel, given *moment) {
	for i := range k.Channels {
		for j := range k.Channels[i].Batches {
			batch := &k.Channels[i].Batches[j]
			s.enqueueBatch(batch, false, given)
			s.enqueueBatch(batch, true, given)
		}
	}
}

// enqueueBatch adds the operations of one direction: one for all connections of a batch of sends and receives, else one
// for each connection.
func (s *simulation) enqueueBatch(batch *plan.Batch, recv bool, given *moment) {
	var op []opEnd
	var queue *opQueue
	for _, prog := range batch.Programs {
		uses := prog.Sends
		if recv {
			uses = prog.Recvs
		}
		for _, u := range uses {
			c := &s.conns[batch.Conns[u.Conn]]
			if !c.proxied() || u.Messages == 0 {
				continue
			}
			e := opEnd{conn: batch.Conns[u.Conn], slots: u.Slots}
			if recv {
				c.recvQueued += u.Messages
				queue, e.upTo = c.recvOps, c.recvQueued
			} else {
				c.sendQueued += u.Messages
				queue, e.upTo = c.sendOps, c.sendQueued
			}
			if op = append(op, e); !batch.P2P {
				s.addOp(queue, proxyOp{op, given})
				op = nil
			}
		}
	}
	if len(op) > 0 {
		slices.SortFunc(op, func(x, y opEnd) int { return cmp.Compare(x.conn, y.conn) })
		s.addOp(queue, proxyOp{op, given})
	}
}

// addOp appends an operation.
func (s *simulation) addOp(o *opQueue, op proxyOp) {
	o.ops = append(o.ops, op)
	if len(o.ops) == 1 {
		s.begin(o, op.given)
	}
}

// begin allows the messages of the current operation.
func (s *simulation) begin(o *opQueue, at *moment) {
	s.causes.allows(o, at)
	for _, e := range o.ops[0].ends {
		c := &s.conns[e.conn]
		if o.recv {
			c.recvAllowed, c.recvSlots = e.upTo, e.slots
		} else {
			c.sendAllowed = e.upTo
		}
	}
	if !s.played {
		return // all connections post at the start
	}
	for _, e := range o.ops[0].ends {
		s.wake(s.conns[e.conn].sender)
		s.proxies(e.conn)
	}
}

// isComplete says whether the current operation is complete.
func (s *simulation) isComplete(o *opQueue) bool {
	for _, e := range o.ops[0].ends {
		c := &s.conns[e.conn]
		done := c.Acked
		if o.recv {
			done = c.received()
		}
		if done < e.upTo {
			return false
		}
	}
	return true
}

// nextOp begins the queue's next operation when the current one is complete. A direct connection has no queue.
func (s *simulation) nextOp(o *opQueue) {
	for o != nil && len(o.ops) > 0 && s.isComplete(o) {
		complete := s.causes.completes(o)
		if o.ops = o.ops[1:]; len(o.ops) > 0 {
			s.begin(o, later(complete, o.ops[0].given))
		}
	}
}
