// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// connID identifies a connection of a job: from one of its ranks to another, on a channel of a communicator.
type connID struct {
	comm, src, dst, channel int
	p2p                     bool
	multicast               plan.Multicast
}

// conn is a connection with the state of both kernels and both proxies. All counts are of messages since the start.
type conn struct {
	connID
	through int // the rank whose process made the connection: the sender, or with PXN another one of its node
	// of a rank's connections to another one, those with a smaller number were made before; then by comm
	made          int
	sim.Endpoints      // of the proxies; within a node Arrived counts what the receiving kernel sees
	draws         bool // a hop of its path draws random numbers
	direct        bool // within a node that costs time: a kernel writes to the receiver's memory, without proxies
	path          []link.PathHop
	back          int64 // the latency of an acknowledgement, ns

	written  uint64 // by the sending kernel
	handed   uint64 // of written, those that the sending proxy may post
	handedAt int64  // when the last one was or will be
	consumed uint64 // by the receiving kernel

	sendQueued, recvQueued   uint64 // in the operations that the proxies were given
	sendAllowed, recvAllowed uint64 // messages that the proxy may have begun, with its current operation
	recvSlots                uint64 // irecvs that the current operation posts ahead

	// The next kernel may use another protocol, and so another number of steps for a message. An LL kernel may consume
	// empty messages before they are written: then occupied is below 0.
	window   window               // of the sending kernel
	reads    uint64               // steps that the receiving kernel frees with a message
	occupied int64                // steps of messages that are not acked or, within a node, consumed
	messages [plan.Steps]inFlight // by number modulo plan.Steps

	sender, receiver *programRun
	sendOps, recvOps *opQueue
}

// window is how a kernel uses the buffer of a connection, in steps: size for all messages in flight, each for one.
type window struct{ size, each uint64 }

type inFlight struct{ bytes, steps uint64 }

// windowOf is the window in which the given number of messages are in flight.
func windowOf(slots uint64) window {
	if plan.Steps%slots == 0 {
		return window{plan.Steps, plan.Steps / slots}
	}
	return window{slots, 1} // p2p, where nothing of the last operation is in flight when the next begins
}

// connect makes the flow of a connection between nodes.
func (c *conn) connect(id uint64, path []link.PathHop, reverse []int, net *link.Network, params []link.Params) error {
	if err := c.Connect(id, path, reverse, net); err != nil {
		return fmt.Errorf("rank %d to rank %d: %w", c.src, c.dst, err)
	}
	c.path = path
	c.back = latencyOf(reverse, params)
	c.draws = slices.ContainsFunc(path, func(h link.PathHop) bool { return params[h.Hop].Draws() })
	return nil
}

// connectDirect makes the flow of a connection within a node. A credit takes as long as data.
func (c *conn) connectDirect(path []link.PathHop, net *link.Network, params []link.Params) {
	var back []int
	for _, h := range path {
		back = append(back, h.Hop)
	}
	c.path, c.direct, c.back = path, true, latencyOf(back, params)
	c.ConnectDirect(c.flowID(), path, back, net)
}

func latencyOf(hops []int, params []link.Params) (ns int64) {
	for _, h := range hops {
		ns += params[h].Latency
	}
	return ns
}

// flowID selects the random draws of a connection.
func (c *conn) flowID() uint64 {
	return (uint64(c.src)<<40 | uint64(c.dst)<<16 | uint64(c.channel)) ^ uint64(c.comm)<<7 ^ uint64(c.multicast)<<60
}

// proxied says whether proxies move the messages: between nodes.
func (c *conn) proxied() bool { return c.Flow != nil && !c.direct }

// slotFree says whether the kernel may write the message that is ahead messages after the connection's next one.
func (c *conn) slotFree(ahead uint64) bool {
	// A kernel of sends shares the slots of its channel: its proxy frees those of the running operation only.
	if c.proxied() && c.p2p && c.written+ahead >= c.sendAllowed {
		return false
	}
	return c.occupied+int64((ahead+1)*c.window.each) <= int64(c.window.size)
}

// put writes a message.
func (c *conn) put(bytes uint64) {
	c.messages[c.written%plan.Steps] = inFlight{bytes, c.window.each}
	c.occupied += int64(c.window.each)
	c.written++
}

// poll takes note of what the steps of the flow have done, as [sim.Endpoints.Poll] does.
func (c *conn) poll() (arrived, acked uint64) {
	if arrived, acked = c.Poll(); c.direct {
		return arrived, 0 // a slot is free when its message is consumed
	}
	for n := c.Acked - acked; n < c.Acked; n++ {
		c.occupied -= int64(c.messages[n%plan.Steps].steps)
	}
	return arrived, acked
}

// send posts what the sending proxy can post.
func (c *conn) send() (posted bool) {
	for c.Sent < c.handed && c.Sent < c.sendAllowed && c.Send(c.messages[c.Sent%plan.Steps].bytes) {
		posted = true
	}
	return posted
}

// directAhead is more messages than a kernel has in flight on any connection.
const directAhead = 4 * plan.Steps

// receiveDirect keeps the flow from waiting for a receive: which memory is free the sending kernel knows from occupied.
func (c *conn) receiveDirect() {
	for c.Posted < c.consumed+directAhead && c.Receive() {
	}
}

// receive posts the receives that the proxy can post. LL and LL128 kernels may consume an empty message before it
// arrives.
func (c *conn) receive() (posted bool) {
	for c.Posted < c.received()+c.recvSlots && c.Posted < c.recvAllowed && c.Receive() {
		posted = true
	}
	return posted
}

// received is the number of messages that are complete for the receiving proxy.
func (c *conn) received() uint64 { return min(c.Arrived, c.consumed) }

// opQueue is the order in which a proxy runs the operations of connections that share a queue: a collective's
// connection has two of its own, and for p2p there is one per rank, channel and direction. It has the current
// operation and those after it.
type opQueue struct {
	recv bool
	ops  []proxyOp
}

// proxyOp is an operation. It is complete when each of its connections has handled upTo messages since the start.
type proxyOp struct {
	ends  []opEnd
	given *moment // to the proxies
}

type opEnd struct {
	conn        int
	upTo, slots uint64
}
