// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// Machine executes the actions of all blocks, each as far as it can go. It is not safe for concurrent use.
type Machine struct {
	*Graph
	Conns []Conn // as the edges of the graph
	slots uint64
	act   func(block int, a *schedule.Action)

	blocks  []blockState
	queue   []int // blocks that may be able to go on
	running int   // blocks that have not ended
	action  schedule.Action
}

// Conn is a connection. All counts are of messages since the machine was made.
type Conn struct {
	*Edge
	// Remote says that messages take time. The user calls [Machine.Progress] when they arrive and are acknowledged.
	// Otherwise the receiver sees a message at once, and its slot is free when the receiver has taken it.
	Remote            bool
	Written, Consumed uint64
	arrived, acked    uint64
}

type blockState struct {
	program *schedule.Program
	flag    schedule.Flag
	waiting []int // blocks that wait for the flag
	queued  bool
}

// New is a machine for calls that are divided by c. Every connection must have both ends. layouts are the memories of
// the GPUs, nil if act does not use the places in an action. act does an action of a block that need not wait; the
// counts of its connections include the action's messages already. It must not keep the action.
func New(g *Graph, c *schedule.Cut, layouts []schedule.Layout, act func(block int, a *schedule.Action)) *Machine {
	m := &Machine{
		Graph: g, slots: uint64(c.Slots), act: act,
		Conns: make([]Conn, len(g.Edges)), blocks: make([]blockState, len(g.Blocks)),
	}
	if layouts == nil {
		layouts = make([]schedule.Layout, len(g.First))
	}
	for i := range m.Conns {
		m.Conns[i].Edge = &g.Edges[i]
	}
	for i := range m.blocks {
		b := &g.Blocks[i]
		m.blocks[i].program = schedule.NewProgram(b.Block, c, &layouts[b.GPU])
	}
	return m
}

// Start begins a call. Counts of messages go on.
func (m *Machine) Start() {
	m.running = 0
	for i := range m.blocks {
		b := &m.blocks[i]
		b.program.Reset()
		b.flag, b.waiting = schedule.NoFlag, nil
		if !b.program.Done() {
			m.running++
		}
		m.wake(i)
	}
}

// Done says whether all blocks have ended the call.
func (m *Machine) Done() bool { return m.running == 0 }

// Run lets every block go on until it must wait, and says whether any did an action.
func (m *Machine) Run() (moved bool) {
	for len(m.queue) > 0 {
		i := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.blocks[i].queued = false
		for !m.blocks[i].program.Done() && m.ready(i) {
			m.step(i)
			moved = true
		}
	}
	return moved
}

// Progress says how many messages of a remote connection have arrived and how many are acknowledged, since the start.
func (m *Machine) Progress(conn int, arrived, acked uint64) {
	c := &m.Conns[conn]
	if c.arrived != arrived {
		c.arrived = arrived
		m.wake(c.Receiver)
	}
	if c.acked != acked {
		c.acked = acked
		m.wake(c.Sender)
	}
}

func (m *Machine) wake(i int) {
	if b := &m.blocks[i]; !b.queued && !b.program.Done() {
		b.queued = true
		m.queue = append(m.queue, i)
	}
}

// ready says whether a block need not wait. Otherwise what ends the wait wakes it.
func (m *Machine) ready(i int) bool {
	m.blocks[i].program.Current(&m.action)
	why, by := m.wait(i, &m.action)
	if why == Flag {
		other := &m.blocks[by]
		other.waiting = append(other.waiting, i)
	}
	return why == Nothing
}

// step does the current action of a block.
func (m *Machine) step(i int) {
	b, a := &m.blocks[i], &m.action
	if a.Step.Receives() {
		c := &m.Conns[m.Blocks[i].In]
		if c.Consumed++; !c.Remote {
			m.wake(c.Sender)
		}
	}
	if a.Step.Sends() {
		c := &m.Conns[m.Blocks[i].Out]
		if c.Written++; !c.Remote {
			m.wake(c.Receiver)
		}
	}
	m.act(i, a)
	b.program.Next()
	if b.program.Done() {
		m.running--
	}
	if a.Ends && a.Step.HasDep && a.Step.Kind != schedule.NopStep {
		b.flag = schedule.Flag{Loop: a.Loop, Step: a.Number}
		for _, w := range b.waiting {
			m.wake(w)
		}
		b.waiting = b.waiting[:0]
	}
}

// Reason is why a block does not go on.
type Reason int

// The reasons.
const (
	Nothing Reason = iota // it can go on
	Ended                 // it has no action left
	Flag                  // another block of its GPU has not done a step
	Message               // its sender has sent none
	Slot                  // its receiver has taken none of those that fill the connection
)

// Waits says why a block does not go on, which block ends that, and its next action. If it has ended, by is
// schedule.None and a is empty.
func (m *Machine) Waits(i int) (why Reason, by int, a schedule.Action) {
	if m.blocks[i].program.Done() {
		return Ended, schedule.None, a
	}
	m.blocks[i].program.Current(&a)
	why, by = m.wait(i, &a)
	return why, by, a
}

func (m *Machine) wait(i int, a *schedule.Action) (why Reason, by int) {
	if a.Waits && a.Step.DepBlock >= 0 {
		if by := m.Dependency(i, a.Step); !m.blocks[by].flag.Reached(a.Loop, a.Step.DepStep) {
			return Flag, by
		}
	}
	if a.Step.Receives() {
		if c := &m.Conns[m.Blocks[i].In]; c.seen() == c.Consumed {
			return Message, c.Sender
		}
	}
	if a.Step.Sends() {
		if c := &m.Conns[m.Blocks[i].Out]; c.Written-c.free() >= m.slots {
			return Slot, c.Receiver
		}
	}
	return Nothing, schedule.None
}

// seen is the number of messages that the receiver can take or has taken.
func (c *Conn) seen() uint64 {
	if c.Remote {
		return c.arrived
	}
	return c.Written
}

// free is the number of messages whose slot the sender has back.
func (c *Conn) free() uint64 {
	if c.Remote {
		return c.acked
	}
	return c.Consumed
}

// Waiting is the first block that has not ended, and its next action. It is nil if all have ended.
func (m *Machine) Waiting() (*Block, schedule.Action) {
	for i := range m.Blocks {
		if why, _, a := m.Waits(i); why != Ended {
			return &m.Blocks[i], a
		}
	}
	return nil, schedule.Action{}
}

// Stuck names a block that waits for ever. It is nil if all have ended.
func (m *Machine) Stuck() error {
	b, a := m.Waiting()
	if b == nil {
		return nil
	}
	return fmt.Errorf("deadlock at this size: GPU %d block %d waits for ever at step %d (%v) of loop %d: "+
		"check the schedule", b.GPU, b.ID, a.Number, a.Step.Kind, a.Loop)
}
