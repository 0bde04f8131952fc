// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"cmp"
	"slices"
)

// proxies lets both proxies of a connection do what they can at this instant.
func (s *sim) proxies(i int) {
	c := &s.conns[i]
	if c.flow == nil {
		return
	}
	if s.turns != nil {
		if !c.posting {
			c.posting = true
			s.posting = append(s.posting, i)
		}
		return
	}
	s.post(i, ncclSteps)
}

// postInTurn lets the proxies post what they can at this instant, in the order of a virtual clock: the next message of
// each connection, then the ones after these (read_posts in shaper/clock/flows.c).
func (s *sim) postInTurn() {
	posting := s.posting
	s.posting = nil
	for _, i := range posting {
		s.conns[i].posting = false
	}
	slices.SortFunc(posting, func(a, b int) int { return s.turns[a] - s.turns[b] })
	for len(posting) > 0 {
		posting = slices.DeleteFunc(posting, func(i int) bool { return !s.post(i, 1) })
	}
}

// post lets both proxies of a connection post what they can, at most the given number of messages. It reports whether
// the sender has more.
func (s *sim) post(i int, most uint64) bool {
	c := &s.conns[i]
	moved := false
	for ; most > 0 && c.sent < c.written && c.sent < c.sendAllowed; most-- {
		if _, ok := c.flow.Post(c.messages[c.sent%ncclSteps].bytes, s.now); !ok {
			break // the flow is full: try again when messages are released
		}
		c.sent++
		moved = true
	}
	// LL and LL128 kernels may consume an empty message before it arrives.
	for c.posted < c.received()+c.recvSlots && c.posted < c.recvAllowed {
		if !c.flow.Recv(s.now) {
			break
		}
		c.posted++
		moved = true
	}
	if moved {
		s.advance(i)
	}
	return moved && c.sent < c.written && c.sent < c.sendAllowed
}

// turns are the places of connections in the order of a virtual clock: by sender, receiver and number, which is that of
// the channel. Those of a communicator come before those of the next one, and those of collectives first.
func turns(conns []conn) []int {
	order := make([]int, len(conns))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &conns[a], &conns[b]
		return cmp.Or(cmp.Compare(x.src, y.src), cmp.Compare(x.dst, y.dst), cmp.Compare(x.comm, y.comm),
			compareBools(x.p2p, y.p2p), cmp.Compare(x.channel, y.channel))
	})
	places := make([]int, len(conns))
	for place, i := range order {
		places[i] = place
	}
	return places
}

// advance executes the flow's steps that are due and wakes both ends.
func (s *sim) advance(i int) {
	s.steps++
	c := &s.conns[i]
	next := c.flow.Advance(s.now)
	arrived, acked := c.arrived, c.acked
	for c.arrived < min(c.sent, c.posted) {
		m := c.flow.Message(c.arrived)
		if t := max(m.Due, m.Recv); t > s.now {
			next = min(next, t)
			break
		}
		c.arrived++
	}
	for c.acked < c.sent {
		m := c.flow.Message(c.acked)
		if m.Sent > s.now {
			next = min(next, m.Sent)
			break
		}
		c.ack()
	}
	for c.released < min(c.arrived, c.acked) {
		c.flow.Take()
		c.released++
	}
	s.heap.Set(i, next)
	if c.arrived > arrived {
		s.wake(c.receiver)
	}
	if c.acked > acked {
		s.wake(c.sender)
	}
	if c.arrived > arrived || c.acked > acked {
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
		done := c.acked
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
