// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
)

// TaskKind is what a [Task] does.
type TaskKind int

// The kinds of tasks.
const (
	// Computes for Nanos on Stream. A computation on the stream [Joins] takes no time: it ends when all that it
	// requires has.
	Computes TaskKind = iota
	Sends
	Receives
)

// Joins is the stream of computations that only join.
const Joins = -1

// Task is what a rank of a job does, down to the messages of NCCL: each slice of each chunk on each channel is one.
type Task struct {
	Kind TaskKind
	// Requires are the tasks of the rank that must have ended before it starts, Follows the tasks that must have started.
	// The tasks of a rank are numbered from 0 in their order, and name earlier ones.
	Requires, Follows []int

	Nanos  int64
	Stream int

	Peer int // rank of the job
	// Tag tells the connections between two ranks apart: by communicator and channel, and collectives from sends. The
	// messages of a tag are received in the order in which they are sent.
	Tag   int
	Bytes uint64 // of the message, with the flags of the protocols LL and LL128
	Local bool   // the peer is on the same node
}

// Tasks makes the tasks of the ranks of a job, one rank after the other: the tasks of all ranks take much memory. A
// reduction takes no time: what a rank passes on requires what it has received. A connection has as many messages in
// flight as NCCL's buffers hold.
type Tasks struct {
	job   *Job
	node  func(rank int) int
	parts map[[2]int][]Part // by communicator and call
}

// NewTasks prepares the tasks of a job whose ranks are on these nodes.
func NewTasks(j *Job, node func(rank int) int) *Tasks {
	return &Tasks{job: j, node: node, parts: map[[2]int][]Part{}}
}

// Rank calls yield for each task of a rank. It stops at an error.
func (t *Tasks) Rank(rank int, yield func(*Task) error) error {
	m := &taskMaker{Tasks: t, rank: rank, yield: yield, streams: map[int]*taskStream{}, comms: map[int][]int{},
		waited: map[int]int{}}
	for i := range t.job.Ranks[rank] {
		if err := m.item(i); err != nil {
			return fmt.Errorf("rank %d, item %d: %w", rank, i, err)
		}
	}
	return nil
}

// partsOf are the collectives of an item.
func (t *Tasks) partsOf(in *Item) ([]Part, error) {
	key := [2]int{in.Comm, in.Call}
	if parts, ok := t.parts[key]; ok {
		return parts, nil
	}
	parts, err := t.job.Parts(in, t.node)
	if err != nil {
		return nil, err
	}
	t.parts[key] = parts
	return parts, nil
}

// taskMaker makes the tasks of one rank.
type taskMaker struct {
	*Tasks
	rank   int
	yield  func(*Task) error
	number int // of the next task

	ends    [][]int // tasks at which the items end
	streams map[int]*taskStream
	comms   map[int][]int // tasks at which the last call of a communicator ends
	waited  map[int]int   // by stream: the last item that the host has waited for
	waits   int           // of the host
}

// taskStream is a stream of a rank.
type taskStream struct {
	last  []int // tasks at which its last item ends
	waits int   // the last item comes after so many waits of the host
}

func (m *taskMaker) task(t *Task) (int, error) {
	slices.Sort(t.Requires)
	t.Requires = slices.Compact(t.Requires)
	m.number++
	return m.number - 1, m.yield(t)
}

// maxRequired is the number of tasks from which on they are joined for the tasks that require them.
const maxRequired = 4

// joined are tasks that have ended when all of the given ones have: these, or one task that joins them.
func (m *taskMaker) joined(tasks []int) ([]int, error) {
	slices.Sort(tasks)
	if tasks = slices.Compact(tasks); len(tasks) <= maxRequired {
		return tasks, nil
	}
	join, err := m.task(&Task{Kind: Computes, Stream: Joins, Requires: tasks})
	return []int{join}, err
}

// item makes the tasks of an item.
func (m *taskMaker) item(i int) error {
	in := &m.job.Ranks[m.rank][i]
	local, err := m.job.Check(m.rank, i)
	if err != nil {
		return err
	}
	if in.Kind == HostWait {
		m.waits++
		for _, a := range in.After {
			if m.job.Ranks[m.rank][a].Kind != HostWait {
				stream := m.job.Ranks[m.rank][a].Stream
				m.waited[stream] = max(m.waited[stream], a)
			}
		}
		m.ends = append(m.ends, nil)
		return nil
	}
	st := m.streams[in.Stream]
	if st == nil {
		st = &taskStream{}
		m.streams[in.Stream] = st
	}
	start, err := m.joined(m.before(in, st))
	if err != nil {
		return err
	}
	ends := start
	switch {
	case in.Kind != Compute:
		if ends, err = m.call(in, local, start); err != nil {
			return err
		}
		m.comms[in.Comm] = ends
	case in.Nanos > 0:
		n, err := m.task(&Task{Kind: Computes, Nanos: in.Nanos, Stream: in.Stream, Requires: slices.Clone(start)})
		if err != nil {
			return err
		}
		ends = []int{n}
	}
	st.last, st.waits = ends, m.waits
	m.ends = append(m.ends, ends)
	return nil
}

// before are the tasks that must have ended before an item starts.
func (m *taskMaker) before(in *Item, st *taskStream) []int {
	out := slices.Clone(st.last)
	for _, a := range in.After {
		out = append(out, m.ends[a]...)
	}
	if st.waits < m.waits { // else the item before it on the stream comes after these
		for _, i := range m.waited {
			out = append(out, m.ends[i]...)
		}
	}
	if in.Kind != Compute {
		out = append(out, m.comms[in.Comm]...)
	}
	return out
}

// call makes the tasks of a kernel of NCCL, and returns those at which it ends.
func (m *taskMaker) call(in *Item, local int, start []int) ([]int, error) {
	var kernels []*Kernel
	add := func(p *Plan, err error) error {
		if err == nil {
			kernels = append(kernels, p.KernelsOf(0, nil, len(m.job.Comms[in.Comm].Ranks))[local])
		}
		return err
	}
	if in.Kind == Collective && len(m.job.Comms[in.Comm].Ranks) > 1 {
		parts, err := m.partsOf(in)
		if err != nil {
			return nil, err
		}
		for i := range parts {
			if err := add(parts[i].PlanOfRank(local)); err != nil {
				return nil, err
			}
		}
	}
	if in.Kind == Exchange || len(in.Sends)+len(in.Recvs) > 0 {
		if err := add(m.job.Exchange(in, local, m.node)); err != nil {
			return nil, err
		}
	}
	return m.kernel(in.Comm, Fuse(kernels...), start)
}

// kernel makes the tasks of a kernel. The programs that run at once take turns, one action each, so that the order of
// the tasks is the order of NCCL's proxy.
func (m *taskMaker) kernel(comm int, k *Kernel, start []int) ([]int, error) {
	if k == nil {
		return start, nil
	}
	var running []*taskChannel
	for i := range k.Channels {
		running = append(running, &taskChannel{maker: m, comm: comm, batches: k.Channels[i].Batches, ends: start})
	}
	var ends []int
	for len(running) > 0 {
		for _, c := range running {
			if err := c.step(); err != nil {
				return nil, err
			}
		}
		running = slices.DeleteFunc(running, func(c *taskChannel) bool {
			if c.isDone() {
				ends = append(ends, c.ends...)
			}
			return c.isDone()
		})
	}
	return m.joined(ends)
}

// taskChannel is what a kernel does on a channel: batches one after another, the programs of a batch at once.
type taskChannel struct {
	maker    *taskMaker
	comm     int
	batches  []Batch
	programs []*taskProgram // of the current batch
	ends     []int          // tasks at which the last batch has ended
}

func (c *taskChannel) isDone() bool { return len(c.programs) == 0 && len(c.batches) == 0 }

// step makes the tasks of the next action of each program.
func (c *taskChannel) step() error {
	if len(c.programs) == 0 {
		next := c.batches[0]
		c.batches = c.batches[1:]
		for _, prog := range next.Programs {
			c.programs = append(c.programs, newTaskProgram(c, next.Plan, prog.Program))
		}
		c.ends = nil
	}
	for _, p := range c.programs {
		if err := p.step(); err != nil {
			return err
		}
	}
	c.programs = slices.DeleteFunc(c.programs, func(p *taskProgram) bool {
		if p.isDone() {
			c.ends = append(c.ends, p.ends()...)
		}
		return p.isDone()
	})
	if len(c.programs) > 0 {
		return nil
	}
	var err error
	c.ends, err = c.maker.joined(c.ends)
	return err
}
