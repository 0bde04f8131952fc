// SPDX-License-Identifier: Apache-2.0

package interleave

// pc is the next step of an agent. Idle is between two calls.
type pc uint8

const (
	idle pc = iota
	sPost
	sTx
	sPosted
	sRoom
	sCopy
	sWritten
	sComplete
	sGone
	sRecvd
	rPost
	rRecvd
	rPosted
	rTx
	rArrived
	rCopy
	rConsumed
	rDue
	rDone
	rGone
	rStill
	aNeed
	aLock
	aLearn
	aInject
	aSent
	aArrive
	aNext
	aUnlock
)

var names = [...]string{"idle", "sPost", "sTx", "sPosted", "sRoom", "sCopy", "sWritten", "sComplete", "sGone", "sRecvd", "rPost", "rRecvd", "rPosted", "rTx",
	"rArrived", "rCopy", "rConsumed", "rDue", "rDone", "rGone", "rStill", "aNeed", "aLock", "aLearn", "aInject", "aSent", "aArrive", "aNext", "aUnlock"}

func (p pc) String() string { return names[p] }

// senderCalls are the calls that the sender may make next.
func (m *machine) senderCalls(st state) (next []state) {
	call := func(at pc, polling bool) {
		n := st
		n.s.at, n.s.polling = at, polling
		next = append(next, n)
	}
	if st.posted < m.messages {
		call(sPost, false)
	}
	if st.txDone < st.posted {
		call(sRoom, true)
	}
	if st.txDone == m.messages {
		next = append(next, m.closeSender(st))
	}
	return next
}

func (m *machine) closeSender(st state) state {
	st.txClosed, st.s.ended = true, true
	st.sentInFull = 0
	for st.sentInFull < st.posted && st.written >= m.end(st.sentInFull) {
		st.sentInFull++
	}
	return st
}

// failSender ends the sender with an error, which must have a reason.
func (m *machine) failSender(st *state, i uint8) {
	if !st.r.crashed && !st.broken && !(st.rxClosed && st.receivedInAll <= i) {
		m.wrong("the send of message %d failed, but the receiver lives and took it", i)
	}
	*st = m.closeSender(*st)
	st.s.failed = true
}

// sender takes the sender's next step.
func (m *machine) sender(st *state) {
	a := &st.s
	switch a.at {
	case sPost:
		floor := min(st.txDone, st.rxDone, st.oldest)
		if m.bug == reuseTooSoon {
			floor = st.txDone
		}
		switch {
		case st.rxClosed || a.dead || st.broken:
			m.failSender(st, st.posted)
		case st.posted-floor < table && st.posted-st.txDone < requests:
			a.at = sTx
			if m.bug == countBeforeEntry {
				a.at = sPosted
			}
		case st.posted-floor >= table && m.bug != receivesLeft:
			a.at = aLock // not only if there is need
		default:
			a.at = sRoom
		}
	case sTx:
		i := st.posted
		a.at = sPosted
		if m.bug == countBeforeEntry {
			i--
			a.at = sRoom
		}
		st.tx[i%table] = i + 1
	case sPosted:
		st.posted++
		a.at = sRoom
		if m.bug == countBeforeEntry {
			a.at = sTx
		}
	case sRoom, sCopy, sWritten:
		m.copyIn(st)
	case sComplete:
		i := st.txDone
		complete := st.sentCount > i && (!m.rdma || st.clock > i) && a.copied > i
		a.at = sGone
		if complete {
			st.txDone++
			a.at = idle
		}
	case sGone:
		a.gone = st.rxClosed
		a.at = sRecvd
	case sRecvd:
		i := st.txDone
		never := a.copied <= i || st.recvd <= i && m.bug != closedReceiver
		if st.broken || a.dead || a.gone && never {
			m.failSender(st, i)
			return
		}
		a.at = idle
	}
}

// copyIn copies at most one cell into the ring.
func (m *machine) copyIn(st *state) {
	a := &st.s
	switch a.at {
	case sRoom:
		for a.copied < st.posted && a.off == m.sizes[a.copied] { // without bytes
			a.copied, a.off = a.copied+1, 0
		}
		a.reg = cells - (st.written - st.consumed)
		if m.bug == noRoom {
			a.reg = cells
		}
		switch {
		case a.copied == st.posted || a.reg == 0:
			a.at = aNeed
		case m.bug == countBeforeData:
			a.at = sWritten
		default:
			a.at = sCopy
		}
	case sCopy:
		at := st.written
		a.at = sWritten
		if m.bug == countBeforeData {
			at--
			a.at = aNeed
		}
		st.ring[at%cells] = at + 1
	case sWritten:
		st.written++
		if a.off++; a.off == m.sizes[a.copied] {
			a.copied, a.off = a.copied+1, 0
		}
		a.at = aNeed
		if m.bug == countBeforeData {
			a.at = sCopy
		}
	}
}
