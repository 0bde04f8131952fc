// SPDX-License-Identifier: Apache-2.0

package interleave

import (
	"fmt"
	"slices"
	"strings"
)

// bug is a mistake made on purpose, to see that the check finds it.
type bug int

const (
	none             bug = iota
	countBeforeEntry     // posted is stored before the entry of tx
	countBeforeData      // written is stored before the data
	roomBeforeCopy       // consumed is stored before the data is read
	noRoom               // the sender does not look at consumed
	reuseTooSoon         // an entry of tx is used again before the receiver is done with it
	arrivedAlone         // the receiver looks at arrived, not at written
	early                // the receiver completes what is not due
	seenTooLate          // what was posted during a step counts as seen
	anyLock              // the receiver takes any lock for a dead sender's
	deadLock             // the receiver waits for a dead sender's lock
	looksTwice           // whether the sender is gone is loaded again after its counts
	closedReceiver       // the sender waits for receives of a receiver that closed
	fullForEver          // irecv waits for room that a dead sender's lock keeps
	brokenUnseen         // the receiver waits for a broken link
	receivesLeft         // nobody tells the model of receives before a message waits for one
)

// machine is the protocol with one choice of what may happen, and what was found.
type machine struct {
	messages                 uint8
	sizes                    [most]uint8
	rdma, abort, crash, down bool
	helper                   uint8 // whose process has another thread: bySender, byReceiver
	bug                      bug
	found                    string // the first thing that is wrong

	number map[state]int32
	states []state
	from   []origin  // how each was reached first
	before [][]int32 // from where each can be reached without an accident
}

type origin struct {
	state int32
	by    string
}

func (m *machine) wrong(format string, args ...any) {
	if m.found == "" {
		m.found = fmt.Sprintf(format, args...)
	}
}

// move is one thing that can happen next.
type move struct {
	by string
	to state
}

// processes are the moves of the processes themselves.
func (m *machine) processes(st state) (out []move) {
	if !st.s.crashed && !st.s.ended {
		if st.s.at == idle {
			for _, n := range m.senderCalls(st) {
				out = append(out, move{"sender calls", n})
			}
		} else {
			out = append(out, m.one("sender", st, func(n *state) { m.stepSender(n) }))
		}
	}
	if !st.r.crashed && !st.r.ended {
		if st.r.at == idle {
			for _, n := range m.receiverCalls(st) {
				out = append(out, move{"receiver calls", n})
			}
		} else {
			out = append(out, m.one("receiver", st, func(n *state) { m.stepReceiver(n) }))
		}
	}
	return out
}

func (m *machine) one(by string, st state, step func(*state)) move {
	n := st
	step(&n)
	return move{by, n}
}

func (m *machine) stepSender(st *state) {
	if st.s.at < aNeed {
		m.sender(st)
		return
	}
	after := idle
	if st.s.polling {
		after = sComplete
	}
	m.advance(st, &st.s, bySender, after)
}

func (m *machine) stepReceiver(st *state) {
	if st.r.at < aNeed {
		m.receiver(st)
		return
	}
	after := idle
	if st.r.polling {
		after = rPosted
	}
	m.advance(st, &st.r, byReceiver, after)
}

// helperMoves are the moves of a process's other thread, which catches up once at
// any time. It comes to its end after its process has closed the connection, not
// before, and with its process if that crashes.
func (m *machine) helperMoves(st state) []move {
	of, h := &st.s, &st.helper
	if m.helper == byReceiver {
		of = &st.r
	}
	if m.helper == free || of.crashed || h.at == idle && (h.turns > 0 || of.ended) {
		return nil
	}
	return []move{m.one("helper", st, func(n *state) {
		if n.helper.at == idle {
			n.helper.at, n.helper.turns = aNeed, 1
		}
		m.advance(n, &n.helper, m.helper, idle)
	})}
}

// surroundings are the moves that must happen some time.
func (m *machine) surroundings(st state) (out []move) {
	if st.clock < st.dueCount {
		out = append(out, m.one("tick", st, func(n *state) { n.clock++ }))
	}
	if st.s.crashed && !st.r.dead {
		out = append(out, m.one("receiver's watch", st, func(n *state) { n.r.dead = true }))
	}
	if st.r.crashed && !st.s.dead {
		out = append(out, m.one("sender's watch", st, func(n *state) { n.s.dead = true }))
	}
	return out
}

// accidents are the moves that may happen.
func (m *machine) accidents(st state) (out []move) {
	if m.crash && !st.s.crashed && !st.r.crashed {
		out = append(out, m.one("sender crashes", st, func(n *state) { n.s.crashed = true }), m.one("receiver crashes", st, func(n *state) { n.r.crashed = true }))
	}
	if m.abort && st.s.at == idle && !st.s.crashed && !st.s.ended {
		out = append(out, move{"sender closes early", m.closeSender(st)})
	}
	if m.abort && st.r.at == idle && !st.r.crashed && !st.r.ended {
		out = append(out, move{"receiver closes early", m.closeReceiver(st)})
	}
	if m.down && !st.down {
		out = append(out, m.one("link goes down", st, func(n *state) { n.down, n.never = true, false }))
	}
	return out
}

// explore visits every state that can be reached. It returns how many there are and
// the way to the first wrong one, empty if none is.
func (m *machine) explore() (states int, way string) {
	if m.sizes == ([most]uint8{}) {
		m.sizes = usual
	}
	m.number = map[state]int32{}
	var first state
	first.never = true
	m.visit(first, origin{-1, ""})
	for at := int32(0); int(at) < len(m.states); at++ {
		st := m.states[at]
		for k, moves := range [][]move{m.processes(st), m.helperMoves(st), m.surroundings(st), m.accidents(st)} {
			if m.found != "" {
				return len(m.states), m.way(at) + m.found
			}
			for _, mv := range moves {
				n := m.visit(mv.to, origin{at, mv.by})
				if k < 3 {
					m.before[n] = append(m.before[n], at)
				}
			}
		}
	}
	if stuck := m.stuck(); stuck >= 0 {
		return len(m.states), m.way(stuck) + "from here on somebody waits for ever"
	}
	return len(m.states), ""
}

func (m *machine) visit(st state, o origin) int32 {
	n, seen := m.number[st]
	if !seen {
		n = int32(len(m.states))
		m.number[st] = n
		m.states, m.from, m.before = append(m.states, st), append(m.from, o), append(m.before, nil)
	}
	return n
}

// stuck finds a state from which those that live cannot come to their ends, whoever
// gets his turns, -1 if there is none.
func (m *machine) stuck() int32 {
	ends := make([]bool, len(m.states))
	var todo []int32
	for n := range m.states {
		if over(&m.states[n]) {
			ends[n] = true
			todo = append(todo, int32(n))
		}
	}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range m.before[n] {
			if !ends[p] {
				ends[p] = true
				todo = append(todo, p)
			}
		}
	}
	for n := range ends {
		if !ends[n] {
			return int32(n)
		}
	}
	return -1
}

func over(st *state) bool {
	return (st.s.crashed || st.s.ended) && (st.r.crashed || st.r.ended)
}

// way tells how a state was reached.
func (m *machine) way(n int32) string {
	var steps []string
	for m.from[n].state >= 0 {
		o := m.from[n]
		st := &m.states[o.state]
		steps = append(steps, fmt.Sprintf("%s (sender at %v, receiver at %v)\n", o.by, st.s.at, st.r.at))
		n = o.state
	}
	slices.Reverse(steps)
	return strings.Join(steps, "")
}
