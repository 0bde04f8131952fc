// SPDX-License-Identifier: Apache-2.0

package interleave

// advance takes the next step of an agent of the process me that advances the link
// model, and goes to after when it is done.
func (m *machine) advance(st *state, a *agent, me uint8, after pc) {
	switch a.at {
	case aNeed:
		a.at = aLock
		waits := st.seenPosted > st.dueCount // for a receive
		if st.never && st.posted == st.seenPosted && (st.recvd == st.seenRecvd || !waits) {
			a.at = after
		}
	case aLock:
		a.at = after
		if st.lock == free {
			st.lock = me
			a.at = aLearn
		}
	case aLearn:
		st.seenPosted, st.seenRecvd = st.posted, st.recvd
		a.at = aInject
	case aInject:
		a.at = aSent
		if m.inject(st) {
			a.at = aInject
		}
	case aSent:
		st.sentCount = max(st.sentCount, st.dueCount)
		if !m.rdma {
			st.sentCount = st.seenPosted
		}
		a.at = aArrive
	case aArrive:
		st.arrived = max(st.arrived, min(st.cur, st.clock))
		a.at = aNext
	case aNext:
		st.oldest = st.arrived
		if !m.rdma { // what has not been read counts against tcp's window
			st.oldest = min(st.oldest, st.seenRecvd)
		}
		st.never = st.arrived == st.cur && !st.down
		if m.bug == seenTooLate {
			st.seenPosted, st.seenRecvd = st.posted, st.recvd
		}
		a.at = aUnlock
	case aUnlock:
		st.lock = free
		a.at = after
	}
}

// inject lets the next message leave, if there is one and it may.
func (m *machine) inject(st *state) bool {
	i := st.cur
	if i == st.seenPosted || m.rdma && i >= st.seenRecvd || st.broken {
		return false
	}
	if st.tx[i%table] != i+1 {
		m.wrong("the model reads message %d from an entry that holds message %d", i, int(st.tx[i%table])-1)
	}
	if st.down {
		st.broken = true
		return false
	}
	st.cur++
	st.dueCount = st.cur
	return true
}
