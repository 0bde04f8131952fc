// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"

	"github.com/ddlemu/ddlemu/shaper/engine/wakes"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// proxies lets both proxies of a connection do what they can at this instant.
func (s *sim) proxies(i int) {
	switch {
	case s.conns[i].Flow == nil:
	case s.turns != nil:
		s.turns.Add(i)
		s.receive(i)
	default:
		s.post(i, plan.Steps)
	}
}

// receive posts the receives that can be posted, and completes those whose data is there. On a virtual clock that needs no
// step of the clock, so it comes before all that is posted at this instant.
func (s *sim) receive(i int) {
	c := &s.conns[i]
	c.receive(s.now)
	if arrived, _ := c.Look(s.now); arrived > 0 {
		s.wake(c.receiver)
		s.nextOp(c.recvOps)
	}
}

// post lets both proxies of a connection post what they can, at most the given number of messages. It reports whether
// the sender has more.
func (s *sim) post(i int, most uint64) bool {
	c := &s.conns[i]
	moved := false
	for ; most > 0 && c.Sent < c.written && c.Sent < c.sendAllowed; most-- {
		if !c.Send(c.messages[c.Sent%plan.Steps].bytes, s.now) {
			break
		}
		moved = true
	}
	c.receive(s.now)
	moved = moved || c.unread
	c.unread = false
	if moved {
		s.advance(i)
	}
	return moved && c.Sent < c.written && c.Sent < c.sendAllowed
}

// turns are the places of connections in the order of a virtual clock: by sender, distance to the receiver and the order
// in which they were made. Those of a communicator were made before those of the next one, unless conn.made says
// something else: those of collectives first, and by channels.
func turns(conns []conn) *wakes.Turns {
	return wakes.NewTurns(len(conns), func(a, b int) int {
		x, y := &conns[a], &conns[b]
		return cmp.Or(cmp.Compare(x.through, y.through), wakes.ByDistance(x.through, x.dst, y.dst), cmp.Compare(x.made, y.made),
			cmp.Compare(x.comm, y.comm), compareBools(x.p2p, y.p2p), cmp.Compare(x.channel, y.channel))
	})
}

// advance executes the flow's steps that are due and wakes both ends.
func (s *sim) advance(i int) {
	s.steps++
	c := &s.conns[i]
	arrived, acked, next := c.advance(s.now)
	s.heap.Set(i, next)
	if s.occupied != nil {
		s.passes = s.net.Passes(s.passes[:0])
		for k := range s.passes {
			s.occupied(c.path[s.passes[k].Hop].Hop, &s.passes[k])
		}
	}
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

// opQueue is the order in which a proxy runs the operations of connections that share a queue: a collective's connection
// has two of its own, and for p2p there is one per rank, channel and direction. It has the current operation and those
// after it.
type opQueue struct {
	recv bool
	ops  []proxyOp
}

// proxyOp is an operation. It is complete when each of its connections has handled upTo messages since the start.
type proxyOp []opEnd

type opEnd struct {
	conn        int
	upTo, slots uint64
}

// addOp appends an operation.
func (s *sim) addOp(o *opQueue, op proxyOp) {
	o.ops = append(o.ops, op)
	if len(o.ops) == 1 {
		s.begin(o)
	}
}

// begin allows the messages of the current operation.
func (s *sim) begin(o *opQueue) {
	for _, e := range o.ops[0] {
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
	for _, e := range o.ops[0] {
		s.wake(s.conns[e.conn].sender)
		s.proxies(e.conn)
	}
}

// isComplete says whether the current operation is complete.
func (s *sim) isComplete(o *opQueue) bool {
	for _, e := range o.ops[0] {
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

// nextOp begins the queue's next operation when the current one is complete.
func (s *sim) nextOp(o *opQueue) {
	for len(o.ops) > 0 && s.isComplete(o) {
		if o.ops = o.ops[1:]; len(o.ops) > 0 {
			s.begin(o)
		}
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
