// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Endpoints is what the two ends of a connection between nodes know of its messages. Counts are since its start.
type Endpoints struct {
	Flow *link.Flow // nil within a node

	Sent     uint64 // posted by the sender
	Acked    uint64 // complete for the sender
	Posted   uint64 // receives that the receiver has posted
	Arrived  uint64 // visible to the receiver
	released uint64 // no longer used, so the flow has forgotten them

	loop   *Loop
	number int
}

// Connect makes the flow. id selects its random draws.
func (e *Endpoints) Connect(id uint64, path []link.PathHop, reverse []int, net *link.Network) error {
	if len(path) == 0 || len(path) > link.MaxHops {
		return fmt.Errorf("the path has %d hops, want 1 to %d", len(path), link.MaxHops)
	}
	e.Flow = net.NewFlow(id, path, reverse)
	return nil
}

// ConnectDirect makes the flow of a connection within a node, see [link.Network.NewDirectFlow].
func (e *Endpoints) ConnectDirect(id uint64, path []link.PathHop, reverse []int, net *link.Network) {
	e.Flow = net.NewDirectFlow(id, path, reverse)
}

// Send posts a message now, unless the flow is full until messages are released.
func (e *Endpoints) Send(bytes uint64) bool { return e.Write(bytes, 0) }

// Write is Send for a message that a kernel writes until a time, see [link.Flow.Write].
func (e *Endpoints) Write(bytes uint64, until int64) bool {
	_, ok := e.Flow.Write(bytes, e.loop.Now(), until)
	if ok {
		e.Sent++
		e.loop.post(e.number)
	}
	return ok
}

// Receive posts a receive now, unless the flow is full until messages are released.
func (e *Endpoints) Receive() bool {
	ok := e.Flow.Recv(e.loop.Now())
	if ok {
		e.Posted++
		e.loop.post(e.number)
	}
	return ok
}

// Poll returns how many more messages have arrived and are complete for the sender, by the steps that the flow has
// made.
func (e *Endpoints) Poll() (arrived, acked uint64) {
	acked = uint64(e.loop.flows[e.number].complete_seen) - e.Acked
	e.Acked += acked
	arrived = e.PollArrived()
	for ; e.released < min(e.Arrived, e.Acked); e.released++ {
		e.Flow.Take()
	}
	return arrived, acked
}

// PollArrived returns how many more messages have arrived. A receive can be posted for a message that is there already.
func (e *Endpoints) PollArrived() uint64 {
	arrived := min(uint64(e.loop.flows[e.number].due_seen), e.Posted) - e.Arrived
	e.Arrived += arrived
	return arrived
}
