// SPDX-License-Identifier: Apache-2.0

package mscclpp

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
)

// machine goes through the operations in an order in which they can be done, and makes their steps. Who waits for what
// does not depend on the order: a channel has one thread block that signals and one that waits, otherwise a warning
// says so. The steps themselves are executed by package interpret.
type machine struct {
	p      *plan
	s      *schedule.Schedule
	ops    int // with the iterations of pipelines
	steps  int
	work   int // see mostWork
	blocks []*block
	gpus   []gpuState
	agents []agent
	piece  int // parts of a chunk that one of several GPUs gets in a round

	numbers  map[[2]int]int        // next channel of the schedule between two GPUs
	signals  map[signalKey]*signal // by the end that signals
	warnings map[string]int        // by kind
}

// mostWork limits the looks at thread blocks, packets and stores to some seconds.
const mostWork = 1 << 28

// gpuState is what the thread blocks of a GPU share.
type gpuState struct {
	blocks  []*block
	layout  schedule.Layout
	sems    []semaphore
	arrived map[int][]*block // at barriers, by their ids
	// packets are the steps that write packets, by the parts of the scratch buffer; writer numbers them from 1.
	packets []at
	writer  []int
	// plain and packed say that the scratch buffer has been used for plain data, and for packets.
	plain, packed bool
}

// agent is the block of a GPU that stores what a thread block of another one sends.
type agent struct{ gpu, block int }

// block is a thread block of the plan.
type block struct {
	gpu, id int
	ops     []operation
	next    int
	main    int           // block of the schedule for local operations, or -1
	ports   map[int]*port // by GPU
	at      at            // the last step
	known   map[int]int   // blocks of the schedule: the step that this thread block has waited for
	past    []int         // agents: the last store that comes before what the thread block does now, or -1
	plainTo map[int]bool  // GPUs into which it stored and which it has not signaled since
	arrived bool          // at the barrier that is next
}

// at is a step of a block of the schedule; block -1: none.
type at struct{ block, step int }

// port is how a thread block reaches a GPU.
type port struct {
	block int // of its GPU
	agent int // block of the other GPU
	id    int // of the agent, among all
}

type signalKey struct {
	src, dst int
	kind     string
	number   int
}

// signal are the signals of a channel in one direction.
type signal struct {
	sent      []sent
	taken     int
	all       int // that the plan sends
	from, to  *block
	ambiguous bool
}

// sent is a signal, or what a semaphore was released with: whoever takes it waits for a step, and for what was stored
// before.
type sent struct {
	at   at
	past []int
}

// semaphore counts. A release of one thread block is known to another that acquires as often.
type semaphore struct {
	tokens   int
	released []sent
	by       map[*block]bool // who releases
	acquired map[*block]int
	all      int // releases in the plan
	init     int
}

func newMachine(p *plan, s *schedule.Schedule, r *reader) *machine {
	m := &machine{p: p, s: s, piece: r.parts / r.pieces, numbers: map[[2]int]int{}, signals: map[signalKey]*signal{},
		warnings: map[string]int{}}
	shape, _ := s.Shape() // the reader has asked for it
	for i := range p.GPUs {
		g := gpuState{layout: s.Layout(i, p.InPlace, 0, shape), arrived: map[int][]*block{},
			writer: make([]int, p.GPUs[i].Scratch*r.parts)}
		for _, x := range p.GPUs[i].Semaphores {
			g.sems = append(g.sems, semaphore{tokens: x.Init, init: x.Init, by: map[*block]bool{},
				acquired: map[*block]int{}})
		}
		m.gpus = append(m.gpus, g)
	}
	return m
}

// addBlock adds a thread block, and counts its signals and releases.
func (m *machine) addBlock(gpu, id int, ops []operation) {
	b := &block{gpu: gpu, id: id, ops: ops, main: schedule.None, ports: map[int]*port{}, at: at{block: schedule.None},
		known: map[int]int{}, plainTo: map[int]bool{}}
	m.blocks = append(m.blocks, b)
	m.gpus[gpu].blocks = append(m.gpus[gpu].blocks, b)
	for i := range ops {
		switch o := &ops[i]; {
		case o.signals():
			for _, c := range o.channels {
				m.signalsOf(gpu, c).all++
			}
		case o.name == "sem_release":
			for _, n := range o.sems {
				s := &m.gpus[gpu].sems[n]
				s.all++
				s.by[b] = true
			}
		}
	}
}

// signalsOf are the signals that a GPU sends on a channel.
func (m *machine) signalsOf(gpu int, c channel) *signal {
	key := signalKey{gpu, c.peer, c.kind, c.number}
	if m.signals[key] == nil {
		m.signals[key] = &signal{}
	}
	return m.signals[key]
}

// waitsOf are the signals that a GPU receives on a channel.
func (m *machine) waitsOf(gpu int, c channel) *signal {
	return m.signalsOf(c.peer, channel{c.kind, gpu, c.number})
}

// run does all operations. What cannot be done is a mistake.
func (m *machine) run() error {
	for again := true; again; {
		again = false
		for _, b := range m.blocks {
			if m.work++; m.work > mostWork {
				return errTooLarge
			}
			for b.next < len(b.ops) && m.ready(b) {
				if err := m.do(b, &b.ops[b.next]); err != nil {
					return fmt.Errorf("%s: %w", b.ops[b.next].from, err)
				}
				b.next++
				b.arrived = false
				again = true
			}
		}
	}
	m.reportStuck()
	m.reportLeft()
	m.countWarnings()
	return nil
}

// ready says whether a thread block need not wait for its next operation.
func (m *machine) ready(b *block) bool {
	o := &b.ops[b.next]
	if o.name == "barrier" {
		return m.meet(b, o)
	}
	return m.missing(b, o) == ""
}

// missing says what an operation waits for; empty: it need not wait.
func (m *machine) missing(b *block, o *operation) string {
	switch o.name {
	case "wait", "rlxwait":
		return m.missingSignal(b, o)
	case "barrier":
		return fmt.Sprintf("barrier %d, to which %d of %d thread blocks come", o.barrier,
			len(m.gpus[b.gpu].arrived[o.barrier]), o.blocks)
	case "sem_acquire":
		return m.missingToken(b, o)
	}
	return m.missingPacket(b, o)
}

// missingSignal says which signal of a wait has not been sent; empty: none.
func (m *machine) missingSignal(b *block, o *operation) string {
	need := map[*signal]int{}
	for _, c := range o.channels {
		x := m.waitsOf(b.gpu, c)
		if need[x]++; x.taken+need[x] > len(x.sent) {
			return fmt.Sprintf("signal %d of GPU %d on %v, which sends %d", x.taken+need[x], c.peer, c, x.all)
		}
	}
	return ""
}

// missingToken says which semaphore cannot be acquired.
func (m *machine) missingToken(b *block, o *operation) string {
	need := map[int]int{}
	for _, n := range o.sems {
		s := &m.gpus[b.gpu].sems[n]
		if need[n]++; need[n] > s.tokens {
			return fmt.Sprintf("semaphore %d, which is %d at first and is released %d times", n, s.init, s.all)
		}
	}
	return ""
}

// missingPacket says which packets an operation reads that nobody has written.
func (m *machine) missingPacket(b *block, o *operation) string {
	for _, x := range o.packets() {
		m.work += x.n
		for i := range x.n {
			if k := x.ref.Offset + i; k >= len(m.gpus[b.gpu].writer) || m.gpus[b.gpu].writer[k] == 0 {
				return fmt.Sprintf("packets of chunk %d of the scratch buffer, which nobody has written", k/m.s.Parts)
			}
		}
	}
	return ""
}

// meet notes that a thread block is at a barrier, and says whether it may go on. The last one joins all.
func (m *machine) meet(b *block, o *operation) bool {
	g := &m.gpus[b.gpu]
	if b.arrived { // the last one has removed it from those that wait
		return !slices.Contains(g.arrived[o.barrier], b)
	}
	b.arrived = true
	g.arrived[o.barrier] = append(g.arrived[o.barrier], b)
	if len(g.arrived[o.barrier]) < o.blocks {
		return false
	}
	all := g.arrived[o.barrier]
	g.arrived[o.barrier] = nil
	m.join(all, o.from)
	return true
}

// reportStuck notes the thread blocks that cannot go on.
func (m *machine) reportStuck() {
	for _, b := range m.blocks {
		if b.next >= len(b.ops) {
			continue
		}
		o := &b.ops[b.next]
		m.mistake(check.Deadlock, "%s waits for %s", o.from, m.missing(b, o))
	}
}

// reportLeft notes the signals that nobody takes: the next call would take them. If a thread block cannot go on, that
// is why.
func (m *machine) reportLeft() {
	if len(m.s.Mistakes) > 0 {
		return
	}
	for _, b := range m.blocks {
		for _, c := range b.signaled() {
			if x := m.signalsOf(b.gpu, c); x.taken < len(x.sent) {
				m.mistake(check.Mismatch,
					"GPU %d signals GPU %d %d times on %v, which waits %d times: the next call takes the signals that "+
						"are left", b.gpu, c.peer, len(x.sent), c, x.taken)
				x.taken = len(x.sent)
			}
		}
	}
	for i := range m.gpus {
		for n := range m.gpus[i].sems {
			if s := &m.gpus[i].sems[n]; s.tokens != s.init {
				m.warn("semaphores",
					"semaphore %d of GPU %d is %d at first and %d at the end, so the next call is another", n, i,
					s.init, s.tokens)
			}
		}
	}
}

// signaled are the channels on which a thread block signals, with repetitions.
func (b *block) signaled() (out []channel) {
	for i := range b.ops {
		if b.ops[i].signals() {
			out = append(out, b.ops[i].channels...)
		}
	}
	return out
}

func (m *machine) mistake(kind check.Kind, format string, args ...any) {
	m.s.Mistakes = append(m.s.Mistakes, schedule.Mistake{Kind: string(kind), Text: fmt.Sprintf(format, args...)})
}

// mostWarnings is how many warnings of one kind are kept.
const mostWarnings = 4

// warn adds a warning.
func (m *machine) warn(kind, format string, args ...any) {
	if m.warnings[kind]++; m.warnings[kind] <= mostWarnings {
		m.s.Warnings = append(m.s.Warnings, fmt.Sprintf(format, args...))
	}
}

// countWarnings says how many warnings were left out.
func (m *machine) countWarnings() {
	for _, kind := range slices.Sorted(maps.Keys(m.warnings)) {
		if more := m.warnings[kind] - mostWarnings; more > 0 {
			m.s.Warnings = append(m.s.Warnings, fmt.Sprintf("and %d more %s", more, kind))
		}
	}
}
