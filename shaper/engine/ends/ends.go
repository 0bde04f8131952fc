// SPDX-License-Identifier: Apache-2.0

// Package ends is what the two ends of a connection between nodes know of its messages.
package ends

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Ends counts the messages of a connection since its start.
type Ends struct {
	Flow *link.Flow // nil within a node

	Sent     uint64 // posted by the sender
	Acked    uint64 // complete for the sender
	Posted   uint64 // receives that the receiver has posted
	Arrived  uint64 // visible to the receiver
	released uint64 // no longer used, so the flow has forgotten them
}

// Connect makes the flow. id selects its random draws.
func (e *Ends) Connect(id uint64, path []link.PathHop, reverse []int, net *link.Network) error {
	if len(path) == 0 || len(path) > link.MaxHops {
		return fmt.Errorf("the path has %d hops, want 1 to %d", len(path), link.MaxHops)
	}
	e.Flow = net.NewFlow(id, path, reverse)
	return nil
}

// Send posts a message, unless the flow is full until messages are released.
func (e *Ends) Send(bytes uint64, now int64) bool {
	_, ok := e.Flow.Post(bytes, now)
	if ok {
		e.Sent++
	}
	return ok
}

// Receive posts a receive, unless the flow is full until messages are released.
func (e *Ends) Receive(now int64) bool {
	ok := e.Flow.Recv(now)
	if ok {
		e.Posted++
	}
	return ok
}

// Advance executes the steps of the flow that are due. It returns how many more messages have arrived and are
// complete for the sender, and when it must be called again, [link.Never] if nothing is under way.
func (e *Ends) Advance(now int64) (arrived, acked uint64, next int64) {
	next = e.Flow.Advance(now)
	wasAcked := e.Acked
	arrived, due := e.Look(now)
	next = min(next, due)
	for e.Acked < e.Sent {
		m := e.Flow.Message(e.Acked)
		if m.Sent > now {
			next = min(next, m.Sent)
			break
		}
		e.Acked++
	}
	for e.released < min(e.Arrived, e.Acked) {
		e.Flow.Take()
		e.released++
	}
	return arrived, e.Acked - wasAcked, next
}

// Look returns how many more messages have arrived by the steps that the flow has executed, and when the next one will,
// [link.Never] if that is not known. A receive can be posted for what is there already.
func (e *Ends) Look(now int64) (arrived uint64, next int64) {
	was := e.Arrived
	for e.Arrived < min(e.Sent, e.Posted) {
		m := e.Flow.Message(e.Arrived)
		if next = max(m.Due, m.Recv); next > now {
			return e.Arrived - was, next
		}
		e.Arrived++
	}
	return e.Arrived - was, link.Never
}
