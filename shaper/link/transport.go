// SPDX-License-Identifier: Apache-2.0

package link

// gate is the earliest time at which the transport lets the segment that ends at
// stream offset end leave, or Never if that is not known yet.
func (f *Flow) gate(end uint64) int64 {
	t := f.Transport
	if t.Kind == RDMA {
		if f.cur >= f.recvd {
			return Never
		}
		// The clear-to-send arrives one reverse latency after irecv.
		return f.msg(f.cur).Recv + f.reverseLatency()
	}
	ready := int64(0)
	if end > t.SendBuffer {
		ready = f.acked(end-t.SendBuffer, &f.gateAck)
	}
	if end > t.Window && ready != Never {
		ready = max(ready, f.read(end-t.Window))
	}
	return ready
}

// acked is the time at which the sender knows that the stream up to offset y has
// arrived. The cursor remembers the segment looked at: y never falls.
func (f *Flow) acked(y uint64, cursor *uint64) int64 {
	if y <= f.forgot {
		return 0
	}
	s := f.covering(y, cursor)
	if s == nil || s.due == Never {
		return Never
	}
	return s.due + f.reverseLatency()
}

// read is the time at which the sender knows that the receiver has read the
// stream up to offset y: it reads what has arrived once it has posted an irecv.
func (f *Flow) read(y uint64) int64 {
	if y <= f.forgot {
		return 0
	}
	s := f.covering(y, &f.gateRead)
	if s == nil || s.due == Never {
		return Never
	}
	return f.known(s)
}

// covering is the segment that holds byte y-1, nil if it has not been made.
func (f *Flow) covering(y uint64, cursor *uint64) *segment {
	*cursor = max(*cursor, f.oldest)
	for *cursor < f.at[0] && f.seg(*cursor).end < y {
		*cursor++
	}
	if *cursor == f.at[0] {
		return nil
	}
	return f.seg(*cursor)
}

// settle notes when tcp sends are complete: when the send buffer has taken the
// last byte.
func (f *Flow) settle() {
	for f.Transport.Kind == TCP && f.sent < f.posted {
		m := f.msg(f.sent)
		t := int64(0)
		if m.End > f.Transport.SendBuffer {
			t = f.acked(m.End-f.Transport.SendBuffer, &f.sentAck)
		}
		if t == Never {
			return
		}
		m.Sent = max(m.ready, t)
		f.sent++
	}
}

// release forgets the arrived segments whose times can no longer matter. Of messages
// that take no room in the buffers half of the bookkeeping may be kept for that; what
// is more goes as soon as the sender has what it waits for, or nothing more could ever
// be posted.
func (f *Flow) release(now int64, next *int64) {
	for f.oldest < f.arrivedS {
		s := f.seg(f.oldest)
		unseen := f.Transport.congested() && f.oldest >= f.window.next
		if f.Transport.Kind == TCP && (unseen || f.matters(s)) {
			known := f.known(s)
			if f.posted-s.msg < MaxMessages/2 || known == Never {
				return
			}
			if now < known {
				*next = min(*next, known)
				return
			}
			if unseen {
				f.acknowledge(f.seg(f.at[0]-1).end, s.came+f.reverseLatency())
			}
		}
		f.forget()
	}
}

// known is when the sender knows that segment s has been read, Never if it has not.
func (f *Flow) known(s *segment) int64 {
	if s.msg >= f.recvd {
		return Never
	}
	return max(s.due, f.msg(s.msg).Recv) + f.reverseLatency()
}

// matters says whether a gate or a completion still to come can be as late as
// what segment s sets: it cannot once that time is before everything to come, or
// once the stream has moved on by the size of the buffer.
func (f *Flow) matters(s *segment) bool {
	t := f.Transport
	cut := f.tail + 1
	if f.cur < f.posted {
		m := f.msg(f.cur)
		cut = m.End - m.Size + f.off + 1
	}
	ack := s.due + f.reverseLatency()
	if s.end+t.SendBuffer >= cut && ack > f.left {
		return true
	}
	end, posted := f.tail, f.lastPosted
	if f.sent < f.posted {
		m := f.msg(f.sent)
		end, posted = m.End, m.Posted
	}
	if s.end+t.SendBuffer >= end && ack > posted {
		return true
	}
	if s.end+t.Window < cut {
		return false
	}
	return f.known(s) > f.left
}

// fate is what losses make of a segment.
type fate struct {
	// through is how many packets the segment has. If cut it is those before the first
	// one lost, which with go-back-N are all that count.
	through uint32
	cut     bool
	again   uint32 // packets lost, each transmission counted
	lossy   uint32 // the last hop that lost one
	delay   int64  // by which recovery makes the segment later; if cut, the sender
	flags   uint32 // of the segment
}

// losses draws what becomes of the packets of the next segment. What is lost of it is
// sent again until all is through. With go-back-N each transmission is drawn when it is
// made.
func (f *Flow) losses(n uint32, last bool) fate {
	l := fate{through: f.Path[0].Params.Packets(n)}
	if !f.lossy() {
		return l
	}
	if f.goBackN() {
		f.firstLoss(&l, last)
		return l
	}
	for round, left := uint32(0), l.through; round < MaxAttempts; round++ {
		lost, tail := uint32(0), false
		for k := range left {
			if tail = f.loses(uint64(k), round, &l); tail {
				lost++
			}
		}
		if lost == 0 {
			break
		}
		last = last && tail
		l.again += lost
		l.delay += f.recovery(round, last, &l.flags)
		left = lost
	}
	return l
}

// recovery is the time that the given round of losses of a segment costs. With a
// congestion window what is sent again and lost again waits for the timer, which doubles
// each time (RFC 6298); without one it is found like the first loss.
func (f *Flow) recovery(round uint32, tail bool, flags *uint32) int64 {
	if !f.Transport.congested() {
		return f.detection(tail)
	}
	*flags |= segmentLost
	if round == 0 {
		return f.detection(tail)
	}
	*flags |= segmentTimeout
	return f.Transport.RTO << min(round-1, maxBackoff)
}

// firstLoss draws the packets of a segment up to the first one lost.
func (f *Flow) firstLoss(l *fate, last bool) {
	n := l.through
	for k := range n {
		if !f.loses(uint64(k), f.attempt, l) {
			continue
		}
		l.through, l.cut, l.again = k, true, 1
		l.delay = f.detection(last && k+1 == n)
		f.waste(uint64(k)+1, l.delay)
		return
	}
}

// MaxWasted bounds the packets for which the chains are stepped that the receiver
// throws away: any chain worth the name has forgotten its state by then.
const MaxWasted = 1024

// waste steps the Gilbert-Elliott chains for the packets from number k of the segment on
// that the sender sends for so long, before it knows that the receiver throws them away.
func (f *Flow) waste(k uint64, delay int64) {
	p := f.Path[0].Params
	n := (f.msg(f.cur).Size - f.off) / uint64(p.Payload)
	n -= min(n, k)
	if t := p.Serialise(p.Payload); t > 0 {
		n = min(n, uint64(delay/t))
	}
	n = min(n, MaxWasted)
	for i, h := range f.Path {
		for j := uint64(0); h.Params.Loss.GoodToBad != 0 && j < n; j++ {
			h.Params.Loss.Lost(f.Seed, h.ID, f.ID, f.counter(k+j, f.attempt), &f.bad[i])
		}
	}
}

// MaxAttempts bounds the transmissions of one packet where what is lost of a segment is
// drawn at once: the last one counts as if it arrived. Losses for which that would matter
// are for the caller to refuse, see configs.MaxLoss; a loss of 1 is not an endless loop.
const MaxAttempts = 64

// loses draws whether packet k of the next segment is lost on the path, and where.
func (f *Flow) loses(k uint64, attempt uint32, l *fate) bool {
	for i, h := range f.Path {
		if p := &h.Params.Loss; p.Any() && p.Lost(f.Seed, h.ID, f.ID, f.counter(k, attempt), &f.bad[i]) {
			h.Counters.Drops++
			l.lossy = max(l.lossy, uint32(i))
			return true
		}
	}
	return false
}

// counter names a packet's transmission in draws. Packets are numbered along the flow,
// however it is cut into segments. A packet has 1024 numbers, then goes on with those of the
// next: with its own again a chain that did not change in them never would.
func (f *Flow) counter(k uint64, attempt uint32) uint64 {
	return (f.packets+k)<<10 + uint64(attempt)
}

func (f *Flow) lossy() bool {
	for _, h := range f.Path {
		if h.Params.Loss.Any() {
			return true
		}
	}
	return false
}

func (f *Flow) goBackN() bool {
	return f.Transport.Kind == RDMA && !f.Transport.SelectiveRepeat
}

// detection is the time from the end of a lost packet to its retransmission: a
// round trip when a later packet of the message shows the gap to the receiver.
// When the last packet of a message is lost, nothing shows it: rdma waits for its
// timeout, tcp for its tail loss probe, two round trips later (RFC 8985).
func (f *Flow) detection(tail bool) int64 {
	if !tail {
		return f.roundTrip()
	}
	if f.Transport.Kind == TCP {
		return min(f.Transport.RTO, 2*f.roundTrip())
	}
	return f.Transport.RTO
}

func (f *Flow) roundTrip() int64 {
	t := f.reverseLatency()
	for _, h := range f.Path {
		t += h.Params.Latency
	}
	return max(t, 1)
}

func (f *Flow) reverseLatency() int64 {
	t := int64(0)
	for _, h := range f.Reverse {
		t += h.Params.Latency
	}
	return t
}
