// SPDX-License-Identifier: Apache-2.0

package interleave

// receiverCalls are the calls that the receiver may make next.
func (m *machine) receiverCalls(st state) (next []state) {
	call := func(at pc, polling bool) {
		n := st
		n.r.at, n.r.polling = at, polling
		next = append(next, n)
	}
	if st.recvd < m.messages {
		call(rPost, false)
	}
	if st.rxDone < st.recvd {
		at := aNeed
		if st.r.copied > st.rxDone {
			at = rDone
		}
		call(at, true)
	}
	if st.rxDone == m.messages {
		next = append(next, m.closeReceiver(st))
	}
	return next
}

func (m *machine) closeReceiver(st state) state {
	st.rxClosed, st.r.ended = true, true
	st.receivedInAll = st.delivered
	return st
}

// failReceiver ends the receiver with an error, which must have a reason.
func (m *machine) failReceiver(st *state, i uint8) {
	if !st.s.crashed && !st.broken && !(st.txClosed && st.sentInFull <= i) {
		m.wrong("the receive of message %d failed, but the sender lives or sent it in full before it closed", i)
	}
	*st = m.closeReceiver(*st)
	st.r.failed = true
}

// receiver takes the receiver's next step.
func (m *machine) receiver(st *state) {
	a := &st.r
	switch a.at {
	case rPost:
		a.at = aNeed
		switch room := st.recvd-min(st.rxDone, st.oldest) < table; {
		case !room && a.dead && st.lock == bySender && m.bug != fullForEver:
			m.failReceiver(st, st.recvd)
		case !room && m.bug != receivesLeft:
			a.at = aLock // not only if there is need
		case room && st.recvd-st.rxDone < requests:
			a.at = rRecvd
		}
	case rRecvd:
		st.recvd++
		a.at = aNeed
	case rPosted, rTx, rArrived, rCopy, rConsumed, rDue:
		m.copyOut(st)
	case rDone:
		a.at = rGone
		if a.copied > st.rxDone {
			st.rxDone++
			a.at = idle
		}
	case rGone:
		a.gone = a.dead || st.txClosed
		a.reg = 0
		if a.dead {
			a.reg = 1
		}
		a.at = rStill
	case rStill:
		m.stillComes(st)
	}
}

// stillComes decides whether a message that is not there yet is waited for. It
// loads the sender's counts after it saw the sender gone: they do not change then.
func (m *machine) stillComes(st *state) {
	a, i := &st.r, st.rxDone
	gone, dead := a.gone, a.reg == 1
	stuck := dead && st.lock == bySender
	switch m.bug {
	case anyLock:
		stuck = st.lock != free
	case deadLock:
		stuck = false
	}
	comes := gone && !stuck && (!st.broken || m.bug == brokenUnseen) && st.posted > i && st.written >= m.end(i)
	if m.bug == looksTwice {
		gone, dead = st.txClosed || a.dead, a.dead
	}
	a.at = idle
	if !comes && (gone || dead || st.broken) {
		m.failReceiver(st, i)
	}
}

// copyOut copies at most one cell out of the ring, and ends messages.
func (m *machine) copyOut(st *state) {
	a, i := &st.r, st.r.copied
	switch a.at {
	case rPosted:
		a.at = rDone
		if i < st.recvd && i < st.posted {
			a.at = rTx
		}
	case rTx:
		if st.tx[i%table] != i+1 {
			m.wrong("message %d is read from an entry that holds message %d", i, int(st.tx[i%table])-1)
		}
		a.at = rArrived
	case rArrived:
		came := uint8(0)
		if st.arrived > 0 {
			came = m.end(st.arrived - 1)
		}
		a.reg = min(came, st.written, m.end(i)) // the stream offset that may be read
		if m.bug == arrivedAlone {
			a.reg = min(came, m.end(i))
		}
		a.at = rDue
		if m.begin(i)+a.off < a.reg {
			a.at = rCopy
			if m.bug == roomBeforeCopy {
				a.at = rConsumed
			}
		}
	case rCopy:
		at := m.begin(i) + a.off
		a.at = rConsumed
		if m.bug == roomBeforeCopy {
			at--
			a.at = rDue
		}
		if got := st.ring[at%cells]; got != at+1 {
			m.wrong("the cell of offset %d holds offset %d", at, int(got)-1)
		}
		if m.bug != roomBeforeCopy {
			a.off++
		}
	case rConsumed:
		if m.bug == roomBeforeCopy {
			a.off++
		}
		st.consumed = m.begin(i) + a.off
		a.at = rDue
		if m.bug == roomBeforeCopy {
			a.at = rCopy
		}
	case rDue:
		due := st.dueCount > i && st.clock > i
		if a.off < m.sizes[i] || !due && m.bug != early {
			a.at = rDone
			return
		}
		m.deliver(st, i)
		a.copied, a.off = i+1, 0
		a.at = rPosted
	}
}

func (m *machine) deliver(st *state, i uint8) {
	if st.delivered != i {
		m.wrong("message %d is delivered after %d others", i, st.delivered)
	}
	if st.clock <= i {
		m.wrong("message %d is delivered before it is due", i)
	}
	st.delivered++
}
