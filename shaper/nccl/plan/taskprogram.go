// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"slices"
)

// taskProgram makes the tasks of a program.
type taskProgram struct {
	*taskMaker
	comm  int
	plan  *Plan
	at    Cursor
	start []int // tasks that must have ended before it starts

	inbound  map[int]*inbound // by the plan's number of the connection
	outbound map[int]*outbound
	arrived  map[int]int // by connection: the last receive that has ended when the last action was done
	version  int         // of arrived
}

// inbound is a connection from which a program receives.
type inbound struct {
	sizes    Cursor // of the actions that end a message
	consumed int    // messages
	open     []int  // tasks of messages that are not consumed
	last     int    // task; -1 for none
	// freed are the receives on other connections that had ended when the kernel read a message, by its number modulo
	// the number of slots: only then its slot is free again.
	freed [][]int
}

// outbound is a connection to which a program sends.
type outbound struct {
	tasks   []int // of the last messages, as many as may be in flight, by number modulo that
	sent    int
	version int // of taskProgram.arrived at the last one
}

func newTaskProgram(c *taskChannel, p *Plan, prog Program) *taskProgram {
	return &taskProgram{
		taskMaker: c.maker, comm: c.comm, plan: p, at: prog.Start(), start: c.ends,
		inbound: map[int]*inbound{}, outbound: map[int]*outbound{}, arrived: map[int]int{},
	}
}

func (p *taskProgram) isDone() bool { return p.at.Action() == nil }

// ends are the tasks at which the program has ended: its last receive and send on each connection.
func (p *taskProgram) ends() []int {
	out := p.executed()
	for _, c := range p.outbound {
		out = append(out, c.tasks[(c.sent-1)%len(c.tasks)])
	}
	return out
}

// step makes the tasks of the next action.
func (p *taskProgram) step() error {
	a := p.at.Action()
	if a == nil {
		return nil
	}
	p.at.Advance()
	for _, i := range a.Recv {
		if err := p.receive(i, a); err != nil {
			return err
		}
	}
	for _, i := range a.Recv {
		if !a.KeepRecv {
			p.consume(i)
		}
	}
	if a.KeepSend {
		return nil
	}
	for _, i := range a.Send {
		if err := p.send(i, a); err != nil {
			return err
		}
	}
	return nil
}

// receive makes the tasks of the messages of a connection up to the message of an action, which then has arrived. The
// kernels of LL and LL128 do not wait for an empty one.
func (p *taskProgram) receive(i int, a *Action) error {
	spec := &p.plan.Conns[i]
	c := p.inbound[i]
	if c == nil {
		c = &inbound{sizes: p.at.Program.Start(), last: -1, freed: make([][]int, spec.RecvSlots)}
		p.inbound[i] = c
	}
	for len(c.open) <= int(a.RecvAhead) {
		t := &Task{Kind: Receives, Requires: p.start, Bytes: c.nextSize(i)}
		if number := c.consumed + len(c.open); c.last >= 0 {
			t.Requires = append([]int{c.last}, c.freed[number%len(c.freed)]...)
		}
		t.Requires = slices.Clone(t.Requires)
		var err error
		if c.last, err = p.message(t, spec, spec.Src); err != nil {
			return err
		}
		c.open = append(c.open, c.last)
	}
	n := c.open[a.RecvAhead]
	if before, ok := p.arrived[i]; !a.Empty && (!ok || n > before) {
		p.arrived[i] = n
		p.version++
	}
	return nil
}

// consume frees the slot of the first open message of a connection.
func (p *taskProgram) consume(i int) {
	c := p.inbound[i]
	c.freed[c.consumed%len(c.freed)] = p.arrivedBesides(i)
	c.open = c.open[1:]
	c.consumed++
}

// arrivedBesides are the receives that have ended on other connections than i.
func (p *taskProgram) arrivedBesides(i int) (out []int) {
	for of, n := range p.arrived {
		if of != i {
			out = append(out, n)
		}
	}
	return out
}

// executed are the tasks that have ended when the last action was done.
func (p *taskProgram) executed() []int {
	if len(p.arrived) == 0 {
		return slices.Clone(p.start)
	}
	return p.arrivedBesides(-1)
}

// send makes the task of the next message on a connection.
func (p *taskProgram) send(i int, a *Action) error {
	spec := &p.plan.Conns[i]
	c := p.outbound[i]
	if c == nil {
		c = &outbound{tasks: make([]int, spec.SendSlots)}
		p.outbound[i] = c
	}
	t := &Task{Kind: Sends, Requires: p.executed(), Bytes: a.Bytes}
	slot := c.sent % len(c.tasks)
	if c.sent >= len(c.tasks) {
		t.Requires = append(t.Requires, c.tasks[slot])
	}
	if c.sent > 0 && c.version == p.version {
		t.Follows = []int{c.tasks[(c.sent-1)%len(c.tasks)]}
	}
	var err error
	if c.tasks[slot], err = p.message(t, spec, spec.Dst); err != nil {
		return err
	}
	c.sent, c.version = c.sent+1, p.version
	return nil
}

// message completes the task of a message on a connection.
func (p *taskProgram) message(t *Task, c *Connection, peer int) (int, error) {
	if c.Multicast != Unicast {
		return 0, errors.New("NVLS: a task is a message between two ranks, and here an NVSwitch reduces or broadcasts")
	}
	ranks := p.job.Comms[p.comm].Ranks
	t.Peer = ranks[peer]
	t.Tag = (p.comm*MaxChannels + c.Channel) * 2
	if c.P2P {
		t.Tag++
	}
	t.Local = p.node(t.Peer) == p.node(p.rank)
	return p.task(t)
}

// nextSize is the size of the next message that the program receives from connection i.
func (c *inbound) nextSize(i int) uint64 {
	for {
		a := c.sizes.Action()
		if a == nil {
			panic("a message that no action reads")
		}
		c.sizes.Advance()
		if !a.KeepRecv && slices.Contains(a.Recv, i) {
			return a.BytesReceived()
		}
	}
}
