// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"math"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// machine executes a schedule. Each step is one operation, or as many as its chunks, and each operation is as many
// messages as the protocol has slices.
type machine struct {
	*graph
	r      *Report
	slices int
	slots  int // messages in flight on a connection
	group  int // chunks of an operation

	run_  []blockRun
	queue []int // blocks that may be able to go on
	conns []connRun
	data  *data // nil: only who waits for whom
}

type blockRun struct {
	step, from, slice int
	flag              int // the last step that it has said is done
	queued            bool
	waiting           []int // blocks that wait for its flag
}

type connRun struct {
	written, consumed int
	messages          []message // of steps sent and not yet received, with data
}

func machineOf(g *graph, r *Report) *machine {
	m := &machine{graph: g, r: r, run_: make([]blockRun, len(g.blocks)), conns: make([]connRun, len(g.conns))}
	for i := range m.run_ {
		m.run_[i].flag = -1
	}
	m.slices, m.slots = 1, 8
	if g.s.Proto == schedule.Simple {
		m.slices, m.slots = 2, 4
	}
	return m
}

// newMachine is a machine with data in the GPUs' memories.
func newMachine(g *graph, r *Report, sh schedule.Shape, inPlace bool, root int) (*machine, error) {
	m := machineOf(g, r)
	// The result does not depend on how many messages fit on a connection: whoever waits for a free slot goes on in the
	// end, or checkSlots finds that he does not.
	m.slots = math.MaxInt
	var err error
	m.data, err = newData(g, r, sh, inPlace, root)
	return m, err
}

// run executes the schedule with operations of at most group chunks. If it stops before the end, that is a finding.
func (m *machine) run(group int) error {
	m.group = group
	for i := range m.blocks {
		m.wake(i)
	}
	for len(m.queue) > 0 {
		i := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		m.run_[i].queued = false
		for m.ready(i) {
			if err := m.act(i); err != nil {
				return err
			}
		}
	}
	m.reportDeadlock()
	return nil
}

func (m *machine) wake(i int) {
	if i >= 0 && !m.run_[i].queued {
		m.run_[i].queued = true
		m.queue = append(m.queue, i)
	}
}

func (m *machine) ended(i int) bool { return m.run_[i].step >= len(m.blocks[i].b.Steps) }

// other is the block whose flag block i waits for at a step.
func (m *machine) other(i, step int) int {
	return m.first[m.blocks[i].gpu] + m.blocks[i].b.Steps[step].DepBlock
}

func (m *machine) ready(i int) bool {
	if m.ended(i) {
		return false
	}
	b, run := &m.blocks[i], &m.run_[i]
	st := &b.b.Steps[run.step]
	if w := b.waitsFor[run.step]; w >= 0 && run.from == 0 && run.slice == 0 {
		o := &m.run_[m.other(i, run.step)]
		if o.flag < int(w) {
			o.waiting = append(o.waiting, i)
			return false
		}
	}
	if !moves(st) {
		return true
	}
	if st.Kind.Receives() {
		if c := &m.conns[b.in]; c.written == c.consumed {
			return false
		}
	}
	if st.Kind.Sends() {
		if c := &m.conns[b.out]; c.written-c.consumed >= m.slots {
			return false
		}
	}
	return true
}

// act executes the next message of a step that is ready.
func (m *machine) act(i int) error {
	b, run := &m.blocks[i], &m.run_[i]
	st := &b.b.Steps[run.step]
	if m.data != nil && run.from == 0 && run.slice == 0 {
		if err := m.data.execute(m, i, run.step); err != nil {
			return err
		}
	}
	if moves(st) {
		slices := 1
		if st.Kind.Receives() {
			m.conns[b.in].consumed++
			m.wake(m.graph.conns[b.in].sender)
			slices = m.slices
		}
		if st.Kind.Sends() {
			m.conns[b.out].written++
			m.wake(m.graph.conns[b.out].receiver)
			slices = m.slices
		}
		if run.slice++; run.slice < slices {
			return nil
		}
		run.slice = 0
		if run.from += min(m.group, st.Count-run.from); run.from < st.Count {
			return nil
		}
	}
	if st.HasDep && st.Kind != schedule.NopStep {
		run.flag = run.step
		waiting := run.waiting
		run.waiting = nil
		for _, w := range waiting {
			m.wake(w)
		}
	}
	run.from = 0
	run.step++
	return nil
}

// reportDeadlock says who waits for whom, if anybody waits.
func (m *machine) reportDeadlock() {
	stuck := -1
	for i := range m.blocks {
		if !m.ended(i) {
			stuck = i
			break
		}
	}
	if stuck < 0 {
		return
	}
	seen := map[int]int{}
	var chain []int
	for i := stuck; i >= 0; i = m.waitsFor(i) {
		if at, ok := seen[i]; ok {
			chain = chain[at:]
			break
		}
		seen[i] = len(chain)
		chain = append(chain, i)
		if m.ended(i) {
			break
		}
	}
	text := ""
	for k, i := range chain {
		if k > 0 {
			text += "; "
		}
		text += m.waitText(i)
	}
	line := m.blocks[chain[0]].b.Steps[min(m.run_[chain[0]].step, len(m.blocks[chain[0]].b.Steps)-1)].Line
	m.r.add(Deadlock, line, "%s", text)
}

// waitsFor is the block that block i waits for, -1 if it has ended.
func (m *machine) waitsFor(i int) int {
	if m.ended(i) {
		return -1
	}
	b, run := &m.blocks[i], &m.run_[i]
	st := &b.b.Steps[run.step]
	if w := b.waitsFor[run.step]; w >= 0 && run.from == 0 && run.slice == 0 && m.run_[m.other(i, run.step)].flag < int(w) {
		return m.other(i, run.step)
	}
	if st.Kind.Receives() && m.conns[b.in].written == m.conns[b.in].consumed {
		return m.graph.conns[b.in].sender
	}
	return m.graph.conns[b.out].receiver
}

func (m *machine) waitText(i int) string {
	if m.ended(i) {
		return fmt.Sprintf("GPU %d block %d has ended", m.blocks[i].gpu, m.blocks[i].id)
	}
	b, run := &m.blocks[i], &m.run_[i]
	st := &b.b.Steps[run.step]
	name := m.name(i, run.step)
	if w := b.waitsFor[run.step]; w >= 0 && run.from == 0 && run.slice == 0 && m.run_[m.other(i, run.step)].flag < int(w) {
		return fmt.Sprintf("%s waits for step %d of block %d", name, w, st.DepBlock)
	}
	if st.Kind.Receives() && m.conns[b.in].written == m.conns[b.in].consumed {
		return fmt.Sprintf("%s waits for a message of GPU %d on channel %d", name, b.b.Recv, b.b.Channel)
	}
	return fmt.Sprintf("%s waits until GPU %d takes one of the %d messages in the buffer of channel %d", name, b.b.Send, m.slots, b.b.Channel)
}

// checkSlots looks for deadlocks because connections hold few messages. Over a network a connection has the sender's
// and the receiver's buffer, within a node often only one. An operation moves whole steps at small sizes, single chunks
// at large ones. These are warnings: another executor may have larger buffers. What cannot run even at small sizes with
// both buffers sets NeedsBuffers.
func (g *graph) checkSlots(r *Report) {
	for k, try := range []struct {
		buffers, group int
		when           string
	}{
		{2, math.MaxInt, "with NCCL's buffers, at any size: "},
		{2, g.leastGroup(), "if the chunks of a step are too large for one operation, the buffers of a connection are too small: "},
		{1, math.MaxInt, "where a connection has one buffer, as over NVLink, it is too small: "},
		{1, g.leastGroup(), "where a connection has one buffer, as over NVLink, and the chunks of a step are too large for one operation, it is too small: "},
	} {
		one := &Report{}
		m := machineOf(g, one)
		m.slots *= try.buffers
		// Without data nothing can be too large.
		_ = m.run(try.group)
		if one.Good() {
			continue
		}
		r.NeedsBuffers = k == 0
		r.Warnings = append(r.Warnings, "deadlock "+try.when+one.Findings[0].Text)
		return
	}
}

// leastGroup is the number of chunks of an operation at the largest size that the schedule is for.
func (g *graph) leastGroup() int {
	largest := uint64(g.s.MaxBytes)
	if largest == 0 || largest > schedule.MaxBytes {
		return 1
	}
	c, err := g.s.Cut(largest, 4)
	if err != nil {
		return 1
	}
	return c.Group
}
